"""Two APIs and three workers on machines of their own, one PostgreSQL and one Redis; an API, a worker and the database
are killed while documents go in, or while questions are answered. Nothing is lost, and every answer is the one that a
single process with the embedded store gives.

The clients do what the documentation says: documents with ids of their own are sent again until a job has them, and an
answer whose connection broke is read on from another API.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.main import create_app
from tests.support.fake_workers import CORPUS, running_worker
from tests.support.stacks.machines import Machines, make_pipeline, make_place, save_model
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.tokenizer import Tokens

PATIENCE_S = 600.0
COLLECTIONS = ("one", "two", "three")
BATCH = 5
"""Documents in a request."""
WORDS = 12
"""So few that answers of them share some with their passages, which are cited."""
BIAS = 5.0
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
COMPARED = ("answer", "finish_reason", "seed", "citations", "sentences", "support", "note", "abstained", "usage")
"""Of an answer: all that depends on what was asked. `usage` without the rows that a worker happened to have."""


@dataclass(frozen=True)
class Texts:
    """Documents by (collection, id), and questions as bodies of requests."""

    documents: dict[tuple[str, str], str]
    questions: list[dict[str, Any]]
    words: list[str]
    """Of the documents; answers prefer them."""

    @classmethod
    def of(cls, documents: int, questions: int, seed: int = 5) -> Texts:
        chance = random.Random(seed)
        words = ["".join(chance.sample(SYLLABLES, 3)) for _ in range(WORDS)]
        names = [f"{''.join(chance.sample(SYLLABLES, 3))}{number}" for number in range(documents)]

        def sentence(name: str) -> str:
            return f"The {name} {' '.join(chance.sample(words, 6))}."

        texts = {
            (COLLECTIONS[number % len(COLLECTIONS)], name): " ".join(sentence(name) for _ in range(2))
            for number, name in enumerate(names)
        }
        asked = chance.choices(list(texts), k=questions)
        return cls(
            texts,
            [
                {
                    "question": f"What does the {name} {' '.join(texts[collection, name].split()[2:4])}?",
                    "collection": collection,
                    "seed": number,
                    "temperature": 0.8 if number % 2 else 0.0,
                    "max_tokens": 24,
                    "retrieval": {"top_k": 3},
                }
                for number, (collection, name) in enumerate(asked)
            ],
            words,
        )

    def prefer_words(self, tokens: Tokens) -> None:
        """Let the answers be of the documents' words."""
        ids = {one for word in self.words for one in tokens.encode_content(f" {word}").ids}
        for question in self.questions:
            question["logit_bias"] = {str(one): BIAS for one in ids}

    def requests(self) -> list[tuple[str, list[dict[str, str]]]]:
        """Collection and documents of each request."""
        found = []
        for collection in COLLECTIONS:
            own = [{"id": name, "text": text} for (held, name), text in self.documents.items() if held == collection]
            found += [(collection, own[first : first + BATCH]) for first in range(0, len(own), BATCH)]
        return found


class Clients:
    """Clients of APIs that come and go; each request goes to the next one that is there."""

    def __init__(self, apis: Callable[[], Iterable[str]]) -> None:
        self._apis = apis
        self._turn = itertools.count()
        self.broken = 0
        """Requests whose connection broke, or to which nobody listened."""
        limits = httpx.Limits(max_keepalive_connections=0)  # no connection of a killed API is used again
        self._client = httpx.Client(timeout=60, limits=limits)

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _address(self) -> str:
        apis = sorted(self._apis())
        return apis[next(self._turn) % len(apis)]

    def _until(self, attempt: Callable[[str], Any]) -> Any:
        """What an attempt at an API gives; it is repeated while that is None or the API is away."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                found = attempt(self._address())
            except httpx.TransportError:
                self.broken += 1
                found = None
            if found is not None:
                return found
            time.sleep(0.05)
        raise AssertionError(f"nothing came of it in {PATIENCE_S:g} s")

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """The response, once it is neither 429 nor 503."""

        def attempt(api: str) -> httpx.Response | None:
            response = self._client.request(method, f"{api}{path}", json=body)
            return None if self._away(response) else response

        found: httpx.Response = self._until(attempt)
        return found

    @staticmethod
    def _away(response: httpx.Response) -> bool:
        assert response.status_code < 500 or response.status_code == 503, response.text
        return response.status_code in (429, 503)

    def ingest(self, collection: str, documents: list[dict[str, str]]) -> None:
        """Send documents, and wait for their job."""
        accepted = self.send("POST", f"/v1/collections/{collection}/documents", {"documents": documents})
        assert accepted.status_code == 202, accepted.text
        job = f"/v1/jobs/{accepted.json()['job_id']}"

        def ended(api: str) -> dict[str, Any] | None:
            response = self._client.get(f"{api}{job}")
            if self._away(response):
                return None
            assert response.status_code == 200, response.text
            progress: dict[str, Any] = response.json()
            return None if progress["status"] in ("queued", "running") else progress

        progress = self._until(ended)
        assert progress["status"] == "succeeded", progress
        assert progress["done"] == len(documents)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, from a stream that goes on at another API where it breaks off."""
        answer_id, last, text = "", "", ""

        def attempt(api: str) -> dict[str, Any] | None:
            nonlocal answer_id, last, text
            headers = {"Last-Event-ID": last} if last else {}
            if answer_id:
                asked = self._client.stream("GET", f"{api}/v1/answers/{answer_id}/events", headers=headers)
            else:
                asked = self._client.stream("POST", f"{api}/v1/query", json={**question, "stream": True})
            with asked as response:
                if response.status_code >= 400:
                    response.read()
                    if self._away(response):
                        return None
                assert response.status_code in (200, 204), response.text
                for event_id, name, data in _events(response.iter_lines()):
                    answer_id, last = data.get("answer_id", answer_id), event_id or last
                    assert name != "error", data
                    text += data["text"] if name == "token" else ""
                    if name == "done":
                        assert data["answer"] == text, "the stream went on where it had been"
                        return data
            return None

        answer: dict[str, Any] = self._until(attempt)
        return answer


def _events(lines: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(id, name, data) of server-sent events."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
            fields = {}


class Course:
    """Runs tasks on threads, and calls in this thread what is due when so many of them have ended."""

    def __init__(self, threads: int = 8) -> None:
        self._threads = threads
        self._ended = 0
        self._changed = threading.Condition()

    def run(self, tasks: list[Callable[[], Any]], due: dict[float, Callable[[], None]]) -> list[Any]:
        """The results in order. `due`: what to call after that share of the tasks."""

        def counted(task: Callable[[], Any]) -> Any:
            try:
                return task()
            finally:
                with self._changed:
                    self._ended += 1
                    self._changed.notify()

        with ThreadPoolExecutor(self._threads) as pool:
            running = [pool.submit(counted, task) for task in tasks]
            for share, call in sorted(due.items()):
                with self._changed:
                    assert self._changed.wait_for(lambda part=share: self._ended >= part * len(tasks), PATIENCE_S)
                call()
            return [one.result() for one in running]


def compared(answer: dict[str, Any]) -> dict[str, Any]:
    found = {name: answer[name] for name in COMPARED}
    found["usage"] = {name: value for name, value in answer["usage"].items() if name.endswith("_tokens")}
    found["passages"] = [(one["document_id"], one["chunk_id"], one["text"]) for one in answer["passages"]]
    return found


def of_one_machine(folder: Path, model: Path, texts: Texts) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """The answers of one process with the embedded store, one after the other, and the documents by collection."""

    async def answers(redis_url: str) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
        app = create_app(pipeline=make_pipeline(redis_url, model, folder, None))
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://rag", timeout=60) as client,
        ):
            for collection in COLLECTIONS:
                (await client.post("/v1/collections", json={"name": collection})).raise_for_status()
            for collection, documents in texts.requests():
                address = f"/v1/collections/{collection}/documents"
                accepted = await client.post(address, json={"documents": documents})
                job = f"/v1/jobs/{accepted.json()['job_id']}"
                while (progress := (await client.get(job)).json())["status"] in ("queued", "running"):
                    await asyncio.sleep(0.02)
                assert progress["status"] == "succeeded", progress
            found = [(await client.post("/v1/query", json=question)).json() for question in texts.questions]
            addresses = {one: f"/v1/collections/{one}/documents?limit=1000" for one in COLLECTIONS}
            listed = {one: (await client.get(address)).json()["documents"] for one, address in addresses.items()}
            return found, listed

    with EmbeddedRedis(folder / "redis") as server:
        place = make_place(server.url, model, folder, "only", None)
        with running_worker(server.url, place, info={"model": "tiny", "tokenizer": place.tokens.hash}):
            return asyncio.run(answers(server.url))


def stored(documents: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["document_id"], one["content_hash"], one["chunks"], one["bytes"]) for one in documents]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("documents", "questions"), [(45, 24), pytest.param(500, 200, marks=pytest.mark.full)])
def test_nothing_is_lost_and_answers_are_those_of_one_machine(documents: int, questions: int, tmp_path: Path) -> None:
    texts = Texts.of(documents, questions)
    model = save_model(tmp_path / "model", [*CORPUS, *texts.documents.values()])
    texts.prefer_words(Tokens.load(model))
    began = time.monotonic()
    expected, held = of_one_machine(tmp_path / "one", model, texts)
    one_machine = time.monotonic() - began
    with Machines(tmp_path / "many", model) as machines, Clients(lambda: list(machines.apis.values())) as clients:
        began = time.monotonic()
        for collection in COLLECTIONS:
            assert clients.send("POST", "/v1/collections", {"name": collection}).status_code == 201
        Course().run(
            [lambda one=one: clients.ingest(*one) for one in texts.requests()],
            {0.2: lambda: machines.kill("worker-0"), 0.5: lambda: machines.kill("database")},
        )
        ingested = time.monotonic() - began
        for collection in COLLECTIONS:
            address = f"/v1/collections/{collection}/documents?limit=1000"
            assert stored(clients.send("GET", address).json()["documents"]) == stored(held[collection])
        began = time.monotonic()
        answers = Course().run(
            [lambda one=one: clients.ask(one) for one in texts.questions],
            {
                0.2: lambda: machines.kill("api-0"),
                0.4: lambda: machines.kill("worker-1"),
                0.6: lambda: machines.kill("database"),
            },
        )
        answered = time.monotonic() - began
        for (collection, name), text in texts.documents.items():
            body = {"question": name, "mode": "lexical", "top_k": 1}
            (passage,) = clients.send("POST", f"/v1/collections/{collection}/search", body).json()["passages"]
            assert (passage["document_id"], passage["text"]) == (name, text)
    resumed = sum(answer["speculation"].get("resumed_tokens", 0) > 0 for answer in answers)
    for one, other in zip(answers, expected, strict=True):
        assert compared(one) == compared(other)
    assert sum(bool(answer["citations"]) for answer in expected) > questions / 2, "so citations are compared"
    print(
        f"{documents} documents, {questions} questions: {one_machine:.0f} s on one machine, on several {ingested:.0f} "
        f"s to ingest and {answered:.0f} s to answer, {clients.broken} broken requests, {resumed} answers continued"
    )
