"""Answers that were asked for and have no end yet, so that none waits for a message that was lost.

A message is lost where Redis dies right after it gave it to a worker, or as a worker gives it back. Knows task names,
records' states and queues; knows nothing of what a task does. A message may come twice this way: see `leases`.
"""

from __future__ import annotations

import logging

from celery import Celery

from workers.broker import keys, lua
from workers.broker.app import GENERATE_QUEUE, RedisClient
from workers.errors import unavailable

log = logging.getLogger(__name__)

PATIENCE_BEATS = 5
"""Heartbeats for which an answer that nobody works on is left to its message; then the message is looked for."""


def send(app: Celery, field: str) -> None:
    """Send an answer's task to the common queue."""
    task, owner, answer_id = field.split(" ", 2)
    app.send_task(task, args=[owner, answer_id], task_id=answer_id, retry=False)


class Unfinished:
    """One worker's look at all unfinished answers."""

    def __init__(self, client: RedisClient) -> None:
        self._redis = client
        self._beats: dict[str, int] = {}
        """Answers that nobody works on to the heartbeats since their message was last seen."""

    def look(self, app: Celery) -> int:
        """Send those again that nobody works on and no message names. Returns how many; call it with every heartbeat.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with unavailable():
            idle = lua.run(self._redis, lua.IDLE, [keys.UNFINISHED, keys.RUNNING], [])
            self._beats = {field: self._beats.get(field, 0) + 1 for field in idle}
            due = [field for field, beats in self._beats.items() if beats > PATIENCE_BEATS]
            if not due:
                return 0
            self._beats.update(dict.fromkeys(due, 0))
            messages = self._messages()
            lost = [field for field in due if field.rpartition(" ")[2] not in messages]
            for field in lost:
                log.warning("the message of %s was lost; sending it again", field)
                send(app, field)
        return len(lost)

    def _messages(self) -> str:
        """All messages that wait. Each has its answer's id as the id of its task."""
        queues = [GENERATE_QUEUE, *self._redis.zrange(keys.QUEUES, 0, -1)]
        return "\n".join(message for queue in queues for message in self._redis.lrange(queue, 0, -1))
