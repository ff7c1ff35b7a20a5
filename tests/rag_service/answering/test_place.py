"""An answer that no worker has taken yet: how many others come first."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rag_service.answering.place import Place
from workers.broker import keys
from workers.broker.app import make_async_redis
from workers.broker.embedded_redis import EmbeddedRedis


def test_answers_that_were_there_first_are_counted_until_they_end(tmp_path: Path) -> None:
    """In a Redis of its own: other tests' workers would take answers without a record off the list."""

    async def run(url: str) -> None:
        async with make_async_redis(url) as redis:
            tasks = [keys.answer_task("acme", name) for name in ("first", "second", "mine", "later")]
            await redis.sadd(keys.UNFINISHED, *tasks[:3])
            await redis.hset(keys.answer("acme", "mine"), "status", "queued")
            place = Place(redis, "acme", "mine")
            assert await place.changed() == 2
            assert await place.changed() is None
            await redis.sadd(keys.UNFINISHED, tasks[3])
            assert await place.changed() is None, "it came later"
            await redis.srem(keys.UNFINISHED, tasks[0])
            assert await place.changed() == 1
            await redis.hset(keys.answer("acme", "mine"), "status", "running")
            assert await place.changed() == 0, "a worker has it, and tells the rest"
            assert await place.changed() is None

    with EmbeddedRedis(tmp_path) as server:
        asyncio.run(run(server.url))
