"""What the API acknowledged ends: as succeeded, failed with a reason, or cancelled, and its documents are as it says.

Random histories of uploads, replacements, deletions, cancellations and questions, in which worker, API and Redis are
killed at any moment (SIGKILL). One client sends one request after the other, so what it may find afterwards can be
told: see `Document`.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.support.stacks.processes import Processes

NAMES = ("a", "b", "c", "d")
ENDED = ("succeeded", "failed", "cancelled")
PATIENCE_S = 120.0


@dataclass
class Upload:
    text: str
    job_id: str | None
    """None: it was not acknowledged, and may have been accepted all the same."""
    status: str = ""
    """How its job ended."""


@dataclass
class Deletion:
    final: bool
    """It was acknowledged, and everything that was uploaded before had gone in or ended: nothing brings it back."""


@dataclass
class Document:
    """What was asked for about one document, in order. Jobs of a collection are done in order, deletions at once."""

    events: list[Upload | Deletion] = field(default_factory=list)

    def allowed(self) -> set[str | None]:
        """The texts that it may have in the end; None for no document."""
        texts: set[str | None] = {None}
        for event in self.events:
            if isinstance(event, Deletion):
                texts = {None} if event.final else texts | {None}
            elif event.status == "succeeded":
                texts = {event.text}
            else:  # in part, or not at all
                texts = texts | {event.text}
        return texts

    @property
    def uploads(self) -> list[Upload]:
        return [event for event in self.events if isinstance(event, Upload)]


class History:
    """One random history in a collection of its own."""

    def __init__(self, stack: Processes, seed: int) -> None:
        self.stack = stack
        self.random = random.Random(seed)
        self.collection = f"c{seed}"
        self.documents = {name: Document() for name in NAMES}
        self.jobs: dict[str, list[Upload]] = {}
        self.answers: list[str] = []
        """Ids of those that were begun."""
        self.numbers = itertools.count()

    def run(self, client: httpx.Client) -> None:
        until(lambda: client.post("/v1/collections", json={"name": self.collection}).status_code in (201, 409))
        actions = [self.upload] * 5 + [self.delete] * 2 + [self.cancel] * 2 + [self.ask] * 2 + [self.kill] * 3
        for _ in range(self.random.randint(6, 14)):
            self.random.choice(actions)(client)
        self.settle(client)
        self.check(client)

    def upload(self, client: httpx.Client) -> None:
        names = self.random.sample(NAMES, self.random.randint(1, len(NAMES)))
        number = next(self.numbers)
        texts = {name: f"Version {number} of {name} in {self.collection}. " * 20 for name in names}
        documents = [{"id": name, "text": text} for name, text in texts.items()]
        address = f"/v1/collections/{self.collection}/documents"
        response = sent(lambda: client.post(address, json={"documents": documents}))
        job_id = response.json()["job_id"] if response is not None and response.status_code == 202 else None
        for name, text in texts.items():
            upload = Upload(text.strip(), job_id)
            self.documents[name].events.append(upload)
            if job_id is not None:
                self.jobs.setdefault(job_id, []).append(upload)

    def delete(self, client: httpx.Client) -> None:
        name = self.random.choice(NAMES)
        document = self.documents[name]
        certain = len(document.uploads) == 1 or all(self.has_ended(client, one) for one in document.uploads)
        response = sent(lambda: client.delete(f"/v1/collections/{self.collection}/documents/{name}"))
        document.events.append(Deletion(certain and response is not None and response.status_code == 204))

    def has_ended(self, client: httpx.Client, upload: Upload) -> bool:
        if upload.job_id is None:
            return False
        response = sent(lambda: client.get(f"/v1/jobs/{upload.job_id}"))
        return response is not None and response.is_success and response.json()["status"] in ENDED

    def cancel(self, client: httpx.Client) -> None:
        if self.jobs:
            job_id = self.random.choice(list(self.jobs))
            sent(lambda: client.delete(f"/v1/jobs/{job_id}"))

    def ask(self, client: httpx.Client) -> None:
        """Begin an answer, and follow it no further."""
        question = {"question": "What is there?", "stream": True, "collection": self.collection}

        def begin() -> httpx.Response:
            with client.stream("POST", "/v1/query", json=question) as response:
                for line in response.iter_lines():
                    if line.startswith("data: ") and "answer_id" in line:
                        self.answers.append(json.loads(line.removeprefix("data: "))["answer_id"])
                        break
                return response

        sent(begin)

    def kill(self, client: httpx.Client) -> None:
        time.sleep(self.random.random() * 0.2)  # somewhere within what runs
        self.stack.kill(self.random.choice(["worker", "worker", "api", "redis"]))

    def settle(self, client: httpx.Client) -> None:
        """Every acknowledged job ends."""
        for job_id, uploads in self.jobs.items():

            def ended(job_id: str = job_id) -> dict[str, Any] | None:
                response = client.get(f"/v1/jobs/{job_id}")
                job: dict[str, Any] = response.json()
                return job if response.status_code == 200 and job["status"] in ENDED else None

            job = until(ended)
            if job["status"] == "failed":
                assert job["failures"]
            assert job["status"] != "succeeded" or job["done"] == job["total"] == len(uploads)
            for upload in uploads:
                upload.status = job["status"]
        for answer_id in self.answers:
            address = f"/v1/answers/{answer_id}"
            until(lambda address=address: client.get(address).json()["status"] in ENDED)
        until(lambda: client.get("/metrics").text.count('rag_ingest_jobs{status="queued"} 0.0') == 1)
        until(lambda: client.get("/metrics").text.count('rag_ingest_jobs{status="running"} 0.0') == 1)

    def check(self, client: httpx.Client) -> None:
        """Each document is there once, as one of the requests left it."""
        address = f"/v1/collections/{self.collection}/documents"
        listed = [document["document_id"] for document in until(lambda: client.get(address)).json()["documents"]]
        assert len(listed) == len(set(listed))
        for name, document in self.documents.items():
            response = until(lambda name=name: client.get(f"{address}/{name}"))
            text = response.json()["text"].strip() if response.status_code == 200 else None
            assert response.status_code in (200, 404), response.text
            assert text in document.allowed(), (name, document)
            assert (name in listed) == (text is not None)


def sent(request: Any) -> httpx.Response | None:
    """The response; None where the connection broke or the service was away."""
    try:
        response: httpx.Response = request()
    except httpx.TransportError:
        return None
    assert response.status_code < 500 or response.status_code == 503, response.text
    return response


def until(look: Any) -> Any:
    """What `look` gives once it gives something; while the service is away it is asked again."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            found = look()
        except (httpx.TransportError, ValueError, KeyError):
            found = None
        if found and not (isinstance(found, httpx.Response) and found.status_code >= 500):
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing came of it in {PATIENCE_S:g} s")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


def run(stack: Processes, seeds: range) -> None:
    with stack.client() as client:
        until(lambda: client.get("/readyz").status_code == 200)
        for seed in seeds:
            print(f"seed {seed}", flush=True)
            History(stack, seed).run(client)


def test_what_was_acknowledged_ends(stack: Processes) -> None:
    run(stack, range(8))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_ends_in_two_hundred_histories(stack: Processes) -> None:
    run(stack, range(1000, 1200))
