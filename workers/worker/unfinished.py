"""Unfinished answers: sends the lost messages of queued answers again.

A message is lost if Redis dies right after a worker received it, or while a worker returns it. Knows task names, record
states and queues; knows nothing of what a task does. A message may come twice this way: see `leases`.
"""

from __future__ import annotations

import logging

from celery import Celery

from workers.broker import keys, lua
from workers.broker.app import GENERATE_QUEUE, RedisClient
from workers.errors import unavailable

log = logging.getLogger(__name__)

PATIENCE_BEATS = 5
"""Heartbeats for which an idle answer waits for its message; then the queues are searched for the message."""


def send(app: Celery, field: str) -> None:
    """Send an answer's task to the common queue."""
    task, owner, answer_id = field.split(" ", 2)
    app.send_task(task, args=[owner, answer_id], task_id=answer_id, retry=False)


class Unfinished:
    """One worker's view of all unfinished answers."""

    def __init__(self, client: RedisClient) -> None:
        self._redis = client
        self._beats: dict[str, int] = {}
        """Idle answers' tasks to the number of heartbeats since their message was last seen."""

    def resend_lost(self, app: Celery) -> int:
        """Send idle answers without a message again. Returns their number; call it with every heartbeat.

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
        """All waiting messages. Each has its answer's id as its task id."""
        queues = [GENERATE_QUEUE, *self._redis.zrange(keys.QUEUES, 0, -1)]
        return "\n".join(message for queue in queues for message in self._redis.lrange(queue, 0, -1))
