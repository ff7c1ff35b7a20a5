"""What was erased is nowhere: everything on disk, in Redis and in the logs is searched for a word of it."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from retriever import Library
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
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

    def __init__(self, folder: Path, redis_url: str, tokens: Tokens) -> None:
        self.folder = folder
        self.redis = make_redis(redis_url)
        encoded = tokens.encode_content(f" {MARKER}").ids
        self.ids = [struct.pack(f"<{len(encoded)}i", *encoded), ",".join(map(str, encoded)).encode()]
        self.words = [MARKER.encode(), MARKER.upper().encode(), *self.ids]

    def found(self) -> list[str]:
        """Where the marker is: files, keys of Redis."""
        places = []
        for path in self.folder.rglob("*"):
            if path.is_file() and self._has(path.read_bytes()):
                places.append(str(path.relative_to(self.folder)))
        for key in self.redis.scan_iter():
            if self._has(key.encode()) or self._has(self._content(key)):
                places.append(key)
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
        return _joined(self.redis.execute_command(*reads[self.redis.type(key)], NEVER_DECODE=True))

    def _has(self, content: bytes) -> bool:
        return any(word in content for word in self.words)


def _joined(reply: Any) -> bytes:
    if isinstance(reply, dict):
        reply = [one for pair in reply.items() for one in pair]
    if isinstance(reply, list | tuple | set):
        return b"\n".join(_joined(one) for one in reply)
    return reply if isinstance(reply, bytes) else str(reply).encode()


async def upload(client: httpx.AsyncClient, name: str, text: str) -> None:
    answer = await client.post("/v1/collections/birds/documents", files=[("files", (name, text.encode()))])
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


async def test_what_is_erased_is_nowhere(
    redis: EmbeddedRedis, tokens: Tokens, tmp_path: Path, make_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "data"
    stack = Stack(folder, redis.url, tokens)
    library = Library(folder, HashEmbedder(), keep_originals=True)
    engine = FakeEngine(tokens, lambda prompt: tokens.encode_content(ANSWER).ids, window=1200)
    place = make_worker_context(redis.url, tokens, engine, library, folder / "uploads", store_tokens=10_000)
    with running_worker(redis.url, place, info={"model": "fake", "tokenizer": tokens.hash}):
        async with make_client(redis.url, folder, answers={"store_tokens": 10_000}, keep_originals=True) as client:
            assert (await client.post("/v1/collections", json={"name": "birds"})).status_code == 201
            await upload(client, "birds.md", TEXT)
            await upload(client, "foxes.md", OTHER)
            documents = (await client.get("/v1/collections/birds/documents")).json()["documents"]
            (birds,) = [one["document_id"] for one in documents if one["name"] == "birds.md"]
            question = {"question": f"When does the {MARKER} sing?", "collection": "birds", "session_id": "mine"}
            for _ in range(2):
                answer = await client.post("/v1/query", json=question)
                assert answer.status_code == 200, answer.text
                assert MARKER in answer.json()["answer"]
            assert stack.found(), "before, it is everywhere"
            assert (await client.delete("/v1/sessions/mine")).status_code == 204
            assert (await client.delete(f"/v1/collections/birds/documents/{birds}")).status_code == 204
            await nowhere(stack)
            result = await client.post("/v1/collections/birds/search", json={"question": "fox", "mode": "lexical"})
            assert result.json()["passages"], "what was not erased is still there"
            await upload(client, "birds.md", TEXT)
            assert stack.found()
            assert (await client.delete("/v1/collections/birds")).status_code == 204
            await nowhere(stack)
    library.close()
    stack.redis.close()
    assert MARKER not in caplog.text.lower()
