"""The place of an accepted answer that no worker has taken yet: how many others come first.

Knows what is kept of unfinished answers in Redis; knows no worker. Once a worker has the answer, its own events say how
many prompts it reads first (`WaitingEvent`).
"""

from __future__ import annotations

from workers.broker import keys
from workers.broker.app import AsyncRedisClient
from workers.errors import unavailable


class Place:
    """The place of one answer, from the time of the first look on."""

    def __init__(self, client: AsyncRedisClient, owner: str, answer_id: str) -> None:
        self._redis = client
        self._record = keys.answer(owner, answer_id)
        self._task = keys.answer_task(owner, answer_id)
        self._ahead: set[str] | None = None
        self._told = 0

    async def changed(self) -> int | None:
        """Number of unfinished answers that were there first, if it changed; 0 once a worker has this answer.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with unavailable():
            status = await self._redis.hget(self._record, "status")
            others = await self._redis.smembers(keys.UNFINISHED) - {self._task} if status == "queued" else set()
        self._ahead = others if self._ahead is None else self._ahead & others
        before, self._told = self._told, len(self._ahead)
        return None if before == self._told else self._told
