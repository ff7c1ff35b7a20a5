"""What was erased is nowhere: everything on disk, in Redis and in the logs is searched for a word of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from retriever import Library, open_stores
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.tokenizer import Tokens

MARKER = "zebrafinch"
TEXT = f"# Birds\n\nThe {MARKER} sings every morning before breakfast in the old garden behind the house.\n"
ANSWER = f"The {MARKER} sings every morning before breakfast in the old garden."
OTHER = "# Foxes\n\nThe quick brown fox jumps over the lazy dog every morning before breakfast.\n"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "data" / "redis") as server:
        yield server


class Stack:
    """A service with everything that keeps texts turned on, and where to search for them."""

    def __init__(self, folder: Path, redis_url: str, tokens: Tokens, dump: Callable[[], Iterable[tuple[str, str]]]):
        self.folder = folder
        self.redis = make_redis(redis_url)
        self._dump = dump
        encoded = tokens.encode_content(f" {MARKER}").ids
        self.ids = [struct.pack(f"<{len(encoded)}i", *encoded), ",".join(map(str, encoded)).encode()]
        self.words = [MARKER.encode(), MARKER.upper().encode(), *self.ids]
        self.words += [word.hex().encode() for word in self.words]  # as PostgreSQL shows bytes

    def found(self) -> list[str]:
        """Where the marker is: files, keys of Redis, tables."""
        places = []
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                if path.is_file() and self._has(str(path).encode() + path.read_bytes()):
                    places.append(str(path.relative_to(self.folder)))
        for key in self.redis.scan_iter():
            if self._has(key.encode()) or self._has(self._content(key)):
                places.append(key)
        places += {table for table, row in self._dump() if self._has(row.encode())}
        return places

    def _content(self, key: str) -> bytes:
        reads = {
            "string": ["GET", key],
            "hash": ["HGETALL", key],
            "list": ["LRANGE", key, 0, -1],
            "set": ["SMEMBERS", key],
            "zset": ["ZRANGE", key, 0, -1],
            "stream": ["XRANGE", key, "-", "+"],
        }
        kind = self.redis.type(key)  # "none": it expired since it was listed
        return b"" if kind == "none" else _joined(self.redis.execute_command(*reads[kind], NEVER_DECODE=True))

    def _has(self, content: bytes) -> bool:
        return any(word in content for word in self.words)


def _joined(reply: Any) -> bytes:
    if isinstance(reply, dict):
        reply = [one for pair in reply.items() for one in pair]
    if isinstance(reply, list | tuple | set):
        return b"\n".join(_joined(one) for one in reply)
    return reply if isinstance(reply, bytes) else str(reply).encode()


async def upload(client: httpx.AsyncClient, *files: tuple[str, str]) -> None:
    """One job for all of them; at least one goes in."""
    answer = await client.post(
        "/v1/collections/birds/documents", files=[("files", (name, text.encode())) for name, text in files]
    )
    assert answer.status_code == 202, answer.text
    path = f"/v1/jobs/{answer.json()['job_id']}"
    while (job := (await client.get(path)).json())["status"] in ("queued", "running"):
        await asyncio.sleep(0.02)
    assert job["status"] == "succeeded", job


async def nowhere(stack: Stack) -> None:
    """Wait until the marker is gone; what runs in the background may take its time."""
    deadline = time.monotonic() + 40
    while places := stack.found():
        assert time.monotonic() < deadline, places
        await asyncio.sleep(0.2)


@pytest.fixture(params=["embedded", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str | None:
    """None, or the PostgreSQL that keeps collections and ingests."""
    return None if request.param == "embedded" else str(request.getfixturevalue("postgres_url"))


def rows(server: PostgresServer, url: str | None) -> Iterator[tuple[str, str]]:
    """All rows of all tables of the service as text, with the names of their tables."""
    if url is None:
        return
    name = url.split("/")[3].partition("?")[0]
    query = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    tables = server.execute(query, name)
    assert len(tables) > 10
    for schema, table in tables:
        for (row,) in server.execute(f"SELECT t::text FROM {schema}.{table} t", name):
            yield f"{schema}.{table}", str(row)


async def test_what_is_erased_is_nowhere(
    redis: EmbeddedRedis,
    tokens: Tokens,
    tmp_path: Path,
    make_client: Any,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
    store_url: str | None,
) -> None:
    """Its text, its names (of a file, so in its id too) and its metadata."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # of this test's client
    folder = tmp_path / "data"
    server = request.getfixturevalue("postgres") if store_url else None
    stack = Stack(folder, redis.url, tokens, lambda: rows(server, store_url))
    library = Library(folder, HashEmbedder(), stores=open_stores(store_url, folder), keep_originals=True)
    engine = FakeEngine(tokens, lambda prompt: tokens.encode_content(ANSWER).ids, window=1200)
    options: dict[str, Any] = {"store_tokens": 10_000, "store_url": store_url}
    place = make_worker_context(redis.url, tokens, engine, library, folder / "uploads", **options)
    settings = {"answers": {"store_tokens": 10_000}, "keep_originals": True, "store_url": store_url}
    with running_worker(redis.url, place, info={"model": "fake", "tokenizer": tokens.hash}):
        async with make_client(redis.url, folder, **settings) as client:
            assert (await client.post("/v1/collections", json={"name": "birds"})).status_code == 201
            await upload(client, (f"{MARKER}.md", " "), ("foxes.md", OTHER))  # fails, and its name is in the job
            await upload(client, (f"{MARKER}.md", TEXT))
            documents = (await client.get("/v1/collections/birds/documents")).json()["documents"]
            (birds,) = [one["document_id"] for one in documents if one["name"] == f"{MARKER}.md"]
            assert MARKER in birds
            question = {"question": f"When does the {MARKER} sing?", "collection": "birds", "session_id": "mine"}
            for _ in range(2):
                answer = await client.post("/v1/query", json=question)
                assert answer.status_code == 200, answer.text
                assert MARKER in answer.json()["answer"]
                given = {"rating": "up", "comment": f"Yes, the {MARKER}."}
                rated = await client.post(f"/v1/answers/{answer.json()['answer_id']}/feedback", json=given)
                assert rated.status_code == 200, rated.text
            assert MARKER in (await client.get("/v1/jobs")).text
            assert stack.found(), "before, it is everywhere"
            assert (await client.delete("/v1/sessions/mine")).status_code == 204
            assert (await client.delete(f"/v1/collections/birds/documents/{birds}")).status_code == 204
            await nowhere(stack)
            result = await client.post("/v1/collections/birds/search", json={"question": "fox", "mode": "lexical"})
            assert result.json()["passages"], "what was not erased is still there"
            await upload(client, (f"{MARKER}.md", TEXT))
            await upload(client, (f"empty {MARKER}.md", " "), ("foxes.md", OTHER))
            assert stack.found()
            assert (await client.delete("/v1/collections/birds")).status_code == 204
            await nowhere(stack)
    library.close()
    stack.redis.close()
    assert MARKER not in caplog.text.lower()
