"""Renamed collections. Answers and turns keep the names of their time, and are read under those of today.

Each rename is kept with its time, as long as an answer that may have the old name. So nothing is written anew, and a
later collection of the old name is not taken for the renamed one.

Knows Redis, records and turns; knows no collections.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from workers.broker import keys
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.broker.messages import GenerateJob, Segment, TurnRecord
from workers.errors import QueueUnavailable, unavailable
from workers.sessions.streams import AnswerRecord


@dataclass(frozen=True, slots=True)
class Rename:
    """`time`: Unix time in seconds, from when on nothing has the old name."""

    name: str
    new: str
    time: float


class Names:
    """The names that collections have now. Pure.

    Args:
        renames: of one tenant, the oldest first.
        sees: whether the reader may know a name; a collection whose name they may not know keeps the old one.
    """

    def __init__(self, renames: Sequence[Rename], sees: Callable[[str], bool] = lambda name: True) -> None:
        self._renames = renames
        self._sees = sees

    def now(self, name: str, then: float) -> str:
        """The name of a collection that had `name` at a Unix time, in seconds."""
        found = name
        for rename in self._renames:
            if rename.time > then and rename.name == found:
                found = rename.new
        return found if self._sees(found) else name

    def record(self, record: AnswerRecord) -> AnswerRecord:
        """An answer's record with the names of today."""
        job = record["job"]
        if self._are_those_of(job.created):
            return record
        collection, edit = job.collection, job.edit
        if collection is not None:
            collection = ",".join(self.now(name, job.created) for name in collection.split(","))
        if edit is not None:
            edit = edit.model_copy(update={"citations": self._parts(edit.citations, job.created)})
        job = job.model_copy(update={"collection": collection, "edit": edit, **self._content(job)})
        return {**record, "collection": job.collection, "passages": job.passages, "job": job}

    def turns(self, turns: Sequence[TurnRecord]) -> list[TurnRecord]:
        """Turns with the names of today."""
        return [
            turn if self._are_those_of(turn.created) else turn.model_copy(update=self._content(turn)) for turn in turns
        ]

    def _are_those_of(self, then: float) -> bool:
        return not any(rename.time > then for rename in self._renames)

    def _content(self, message: GenerateJob | TurnRecord) -> dict[str, Any]:
        def renamed(segment: Segment) -> Segment:
            if segment.collection is None:
                return segment
            return segment.model_copy(update={"collection": self.now(segment.collection, message.created)})

        return {
            "segments": [renamed(segment) for segment in message.segments],
            "passages": self._parts(message.passages, message.created),
        }

    def _parts(self, parts: Sequence[Mapping[str, Any]], then: float) -> list[dict[str, Any]]:
        """Passages or citations. Those stored before they named their collection stay as they are."""
        return [
            {**part, "collection": self.now(str(part["collection"]), then)} if part.get("collection") else dict(part)
            for part in parts
        ]


class Renames:
    """The renames of all tenants. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
        asynchronous: from `make_async_redis`; only `anames` needs it.
        ttl_s: seconds for which a rename is kept; as long as an answer or a session.
    """

    def __init__(self, client: RedisClient, asynchronous: AsyncRedisClient, ttl_s: int) -> None:
        self._redis: Any = client
        self._async: Any = asynchronous
        self._ttl_s = ttl_s

    @contextmanager
    def recording(self, tenant: str, name: str, new: str) -> Iterator[None]:
        """Record a rename around the rename itself; an exception withdraws it."""
        key, member = keys.renames(tenant), json.dumps([name, new, uuid.uuid4().hex])

        def record() -> None:
            with unavailable(), self._redis.pipeline(transaction=True) as pipe:
                pipe.zadd(key, {member: time.time()})
                pipe.zremrangebyscore(key, "-inf", time.time() - self._ttl_s)
                pipe.expire(key, self._ttl_s)
                pipe.execute()

        record()
        try:
            yield
        except BaseException:
            with suppress(QueueUnavailable), unavailable():
                self._redis.zrem(key, member)
            raise
        with suppress(QueueUnavailable):
            record()  # questions had the old name until now

    def names(self, tenant: str, sees: Callable[[str], bool]) -> Names:
        """Those of a tenant's collections, as a reader may know them."""
        with unavailable():
            found = self._redis.zrange(keys.renames(tenant), 0, -1, withscores=True)
        return Names(_parsed(found), sees)

    async def anames(self, tenant: str, sees: Callable[[str], bool]) -> Names:
        """`names` for asyncio."""
        with unavailable():
            found = await self._async.zrange(keys.renames(tenant), 0, -1, withscores=True)
        return Names(_parsed(found), sees)


def _parsed(found: Sequence[tuple[str, float]]) -> list[Rename]:
    renames = []
    for member, at in found:
        name, new, _ = json.loads(member)
        renames.append(Rename(name, new, at))
    return renames
