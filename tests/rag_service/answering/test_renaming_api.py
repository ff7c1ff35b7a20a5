"""Collections renamed over HTTP, in both stores: what refers to them goes on, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from retriever import Library, open_stores
from retriever.embedding.embedder import Vectors
from tests.support.api_keys import add_key
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
from workers.broker import keys
from workers.broker.embedded_redis import EmbeddedRedis
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.ingests.queue import IngestQueue
from workers.tokens.tokenizer import Tokens

TEXT = "# Foxes\n\nThe quick brown fox jumps over the lazy dog every morning before breakfast.\n"
ANSWER = "The quick brown fox jumps over the lazy dog every morning before breakfast."
FIRST = {"question": "When does the fox jump over the dog?", "collection": "animals", "session_id": "talk"}
FOLLOW_UP = {"question": "Who is it that jumps over the lazy dog?", "session_id": "talk"}


class HeldEmbedder(HashEmbedder):
    """Waits before it embeds documents, while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()
        self.waiting = threading.Event()

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        self.waiting.set()
        assert self.free.wait(60)
        return super().embed_documents(texts)


@dataclass
class Place:
    client: httpx.AsyncClient
    pipeline: Any
    embedder: HeldEmbedder
    prompts: list[list[int]]
    tokens: Tokens

    async def send(self, name: str, identity: str, text: str = TEXT) -> str:
        """The id of an accepted ingest."""
        body = {"documents": [{"id": identity, "text": text}]}
        accepted = await self.client.post(f"/v1/collections/{name}/documents", json=body)
        assert accepted.status_code == 202, accepted.text
        return str(accepted.json()["job_id"])

    async def ended(self, job_id: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                job: dict[str, Any] = (await self.client.get(f"/v1/jobs/{job_id}")).json()
                if job["status"] not in ("queued", "running"):
                    return job
                await asyncio.sleep(0.02)

    async def filled(self, name: str, identity: str, text: str = TEXT) -> None:
        assert (await self.client.post("/v1/collections", json={"name": name})).status_code == 201
        assert (await self.ended(await self.send(name, identity, text)))["status"] == "succeeded"

    async def rename(self, name: str, new: str, status: int = 200, **options: Any) -> dict[str, Any]:
        response = await self.client.patch(f"/v1/collections/{name}", json={"name": new}, **options)
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    async def ask(self, body: dict[str, Any], status: int = 200, **options: Any) -> dict[str, Any]:
        response = await self.client.post("/v1/query", json=body, **options)
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    async def documents(self, name: str) -> list[str]:
        listed = (await self.client.get(f"/v1/collections/{name}/documents")).json()["documents"]
        return [one["document_id"] for one in listed]

    def collections_of(self, parts: Sequence[dict[str, Any]]) -> set[str]:
        return {part["collection"] for part in parts}


@pytest.fixture(params=["embedded", "postgres"])
async def place(
    request: pytest.FixtureRequest, tokens: Tokens, tmp_path: Path, make_client: Any
) -> AsyncIterator[Place]:
    """A service of its own, with one store or the other, that keeps everything it can."""
    store_url = None if request.param == "embedded" else str(request.getfixturevalue("postgres_url"))
    folder, embedder, prompts = tmp_path / "data", HeldEmbedder(), list[list[int]]()

    def before_step(sequence: Any) -> None:
        if not sequence.tokens:
            prompts.append(list(sequence.prompt))

    with EmbeddedRedis(tmp_path / "redis") as redis:
        library = Library(folder, embedder, stores=open_stores(store_url, folder))
        engine = FakeEngine(tokens, lambda _: tokens.encode_content(ANSWER).ids, window=2000, before_step=before_step)
        options: dict[str, Any] = {"store_tokens": 10_000, "store_url": store_url}
        context = make_worker_context(redis.url, tokens, engine, library, folder / "uploads", **options)
        settings = {"answers": {"store_tokens": 10_000}, "retrieval": {"rewrite": False}, "store_url": store_url}
        with running_worker(redis.url, context, info={"model": "fake", "tokenizer": tokens.hash}):
            async with make_client(redis.url, folder, **settings) as client:
                yield Place(client, client.pipeline, embedder, prompts, tokens)
                embedder.free.set()
        library.close()


async def test_all_that_refers_to_a_collection_goes_on_under_its_new_name(place: Place) -> None:
    client = place.client
    await place.filled("animals", "foxes")
    before = (await client.get("/v1/collections/animals")).json()
    answer = await place.ask(FIRST)
    assert place.collections_of(answer["citations"]) == {"animals"}
    renamed = await place.rename("animals", "beasts")
    assert renamed == (await client.get("/v1/collections/beasts")).json() == {**before, "name": "beasts"}
    assert (await client.get("/v1/collections/animals")).json()["code"] == "unknown_collection"
    assert [one["name"] for one in (await client.get("/v1/collections")).json()["collections"]] == ["beasts"]

    kept = (await client.get(f"/v1/answers/{answer['answer_id']}")).json()
    assert kept["collection"] == "beasts"
    assert place.collections_of(kept["passages"]) == place.collections_of(kept["citations"]) == {"beasts"}
    (turn,) = (await client.get("/v1/sessions/talk")).json()["turns"]
    assert place.collections_of(turn["passages"]) == {"beasts"}
    (job,) = (await client.get("/v1/jobs")).json()["jobs"]
    assert job["collection"] == "beasts"

    followed = await place.ask(FOLLOW_UP)
    assert followed["collection"] == "beasts"
    assert place.collections_of(followed["passages"]) == {"beasts"}
    assert place.tokens.decode(place.prompts[-1]).count("brown fox jumps") == 2, "the passage is there once, and quoted"
    edited = (await client.post(f"/v1/answers/{answer['answer_id']}/edits", json={"instruction": "Shorter."})).json()
    assert edited["collection"] == "beasts"
    assert place.collections_of(edited["citations"]) == {"beasts"}

    (entry,) = [one for one in place.pipeline.audit.entries("default", 1) if one.action == "collection.rename"]
    assert (entry.collection, entry.name) == ("animals", "beasts")
    stores = place.pipeline.redis.smembers(keys.stores("default"))
    assert {name.partition(":")[2] for name in stores} == {"beasts"}, "nothing to copy from is left of the old name"


async def test_a_later_collection_of_the_old_name_is_another_one(place: Place) -> None:
    await place.filled("animals", "foxes")
    await place.ask(FIRST)
    await place.rename("animals", "beasts")
    await place.filled("animals", "cats", "# Cats\n\nThe cat jumps over the lazy dog at night.\n")
    assert place.collections_of((await place.ask(FOLLOW_UP))["passages"]) == {"beasts"}
    new = await place.ask({**FIRST, "session_id": "another"})
    assert new["collection"] == "animals"
    await place.rename("beasts", "again")
    assert place.collections_of((await place.ask(FOLLOW_UP))["passages"]) == {"again"}
    assert (await place.client.get(f"/v1/answers/{new['answer_id']}")).json()["collection"] == "animals"
    assert (await place.client.delete("/v1/collections/again")).status_code == 204
    gone = await place.ask(FOLLOW_UP, 409)
    assert gone["code"] == "collection_gone"
    assert "'again'" in gone["detail"]


async def test_what_cannot_be_renamed_stays_as_it_is(place: Place) -> None:
    await place.filled("animals", "foxes")
    await place.filled("plants", "trees")
    answer = await place.ask(FIRST)
    for name, new, status, code in (
        ("nowhere", "beasts", 404, "unknown_collection"),
        ("animals", "plants", 409, "collection_exists"),
        ("animals", "animals", 409, "collection_exists"),
        ("animals", "../up", 422, "invalid_request"),
        ("animals", "", 422, "invalid_request"),
        ("../up", "beasts", 404, "not_found"),
    ):
        assert (await place.rename(name, new, status))["code"] == code, (name, new)
    for body in ({}, {"name": 1}, {"name": "x", "other": 1}):
        assert (await place.client.patch("/v1/collections/animals", json=body)).status_code == 422
    place.pipeline.library._stores.create(".reindex-animals", "hash", 64, "float32")
    assert (await place.rename("animals", "beasts", 409))["code"] == "collection_in_use"
    place.pipeline.library._stores.delete(".reindex-animals")
    assert await place.documents("animals") == ["foxes"]
    assert (await place.client.get(f"/v1/answers/{answer['answer_id']}")).json()["collection"] == "animals"
    actions = [entry.action for entry in place.pipeline.audit.entries("default", 1)]
    assert "collection.rename" not in actions, "withdrawn"
    assert not place.pipeline.redis.exists(keys.renames("default"))


async def test_an_ingest_under_way_keeps_its_collection(place: Place) -> None:
    await place.filled("animals", "foxes")
    place.embedder.free.clear()
    place.embedder.waiting.clear()
    running = await place.send("animals", "dogs", "# Dogs\n\nA dog sleeps all day.\n")
    assert await asyncio.to_thread(place.embedder.waiting.wait, 60)
    waiting = await place.send("animals", "cats", "# Cats\n\nA cat sleeps all night.\n")
    refused = await place.rename("animals", "beasts", 409)
    assert refused["code"] == "collection_in_use"
    assert refused["job_id"] in (running, waiting)
    place.embedder.free.set()
    for job_id in (running, waiting):
        assert (await place.ended(job_id))["status"] == "succeeded"
    await place.rename("animals", "beasts")
    assert await place.documents("beasts") == ["cats", "dogs", "foxes"]


async def test_an_ingest_that_is_accepted_at_the_same_moment_stops_the_rename(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was asked whether there is one, and before the name is another one."""
    await place.filled("animals", "foxes")
    place.embedder.free.clear()
    rename = Library.rename
    file = IngestFile(name="cats", text="# Cats\n\nA cat sleeps all night.\n", document_id="cats")
    job = IngestJob(job_id=uuid.uuid4().hex, collection="animals", files=[file], created=time.time())

    def late(self: Library, name: str, new: str) -> Any:
        if name == "animals":
            place.pipeline.ingests.enqueue(job)
            assert place.embedder.waiting.wait(60)  # it has begun
        return rename(self, name, new)

    place.embedder.waiting.clear()
    monkeypatch.setattr(Library, "rename", late)
    assert (await place.rename("animals", "beasts", 409))["code"] == "collection_in_use"
    place.embedder.free.set()
    assert (await place.ended(job.job_id))["status"] == "succeeded"
    assert await place.documents("animals") == ["cats", "foxes"]
    assert not place.pipeline.redis.exists(keys.renames("default"))


async def test_an_upload_to_a_collection_that_is_renamed_meanwhile_says_so(place: Place) -> None:
    await place.filled("animals", "foxes")

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"documents": [{"id": "cats", "text": "A cat sle'
        await place.rename("animals", "beasts")
        yield b'eps."}]}'

    path, json = "/v1/collections/animals/documents", {"Content-Type": "application/json"}
    refused = await place.client.post(path, content=slowly(), headers=json)
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown_collection")
    jobs = (await place.client.get("/v1/jobs")).json()["jobs"]
    assert [job["collection"] for job in jobs] == ["beasts"], "that of the collection's document"
    assert await place.documents("beasts") == ["foxes"]


async def test_an_ingest_that_is_accepted_while_the_name_changes_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a worker then, and must not go into a later collection of the old name."""
    for name in ("animals", "plants"):
        await place.filled(name, "first")
    place.embedder.free.clear()
    place.embedder.waiting.clear()
    held = await place.send("plants", "trees", "# Trees\n\nA tree sleeps all winter.\n")
    assert await asyncio.to_thread(place.embedder.waiting.wait, 60)
    enqueue, accepted = IngestQueue.enqueue, list[str]()

    def late(self: IngestQueue, job: IngestJob) -> None:
        place.pipeline.library.rename("animals", "beasts")
        accepted.append(job.job_id)
        enqueue(self, job)

    monkeypatch.setattr(IngestQueue, "enqueue", late)
    body = {"documents": [{"id": "cats", "text": "A cat sleeps."}]}
    refused = await place.client.post("/v1/collections/animals/documents", json=body)
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown_collection")
    assert (await place.client.get(f"/v1/jobs/{accepted[0]}")).json()["status"] == "cancelled"
    place.embedder.free.set()
    assert (await place.ended(held))["status"] == "succeeded"
    assert await place.documents("beasts") == ["first"]


async def test_keys_keep_to_the_names_that_they_are_limited_to(place: Place) -> None:
    await place.filled("animals", "foxes")

    def key(**options: Any) -> dict[str, dict[str, str]]:
        made = add_key(place.pipeline.api_keys, "test", "default", **{"person": "ann", "role": "editor", **options})
        return {"headers": {"Authorization": f"Bearer {made[1]}"}}

    old, both = key(collections=["animals"]), key(collections=["animals", "beasts"])
    answer = await place.ask(FIRST, **old)
    assert (await place.rename("animals", "beasts", 403, **old))["code"] == "forbidden"
    assert (await place.rename("animals", "beasts", 403, **key(role="reader")))["code"] == "forbidden"
    assert (await place.rename("animals", "beasts", 404, **key(collections=["beasts"])))["code"] == "unknown_collection"
    await place.rename("animals", "beasts", **both)
    admin = key(collections=["animals"], role="admin")
    for path in (f"/v1/answers/{answer['answer_id']}", "/v1/sessions/talk", "/v1/collections", "/v1/jobs", "/v1/audit"):
        told = await place.client.get(path, **admin)
        assert (told.status_code, "beasts" in told.text) == (200, False), "nor do they tell of another name"
    assert "beasts" in (await place.client.get("/v1/audit", **key(role="admin"))).text
    gone = await place.ask(FOLLOW_UP, 409, **old)
    assert (gone["code"], "beasts" in gone["detail"]) == ("collection_gone", False)
    assert (await place.ask(FOLLOW_UP, **both))["collection"] == "beasts"
