"""An answer that no worker has taken yet: how many others come first."""

from __future__ import annotations

import asyncio

from rag_service.answering.place import Place
from workers.broker import keys
from workers.broker.app import make_async_redis


def test_answers_that_were_there_first_are_counted_until_they_end(redis_server: str) -> None:
    async def run() -> None:
        async with make_async_redis(redis_server) as redis:
            await redis.delete(keys.UNFINISHED)
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
            await redis.delete(keys.UNFINISHED, keys.answer("acme", "mine"))

    asyncio.run(run())
