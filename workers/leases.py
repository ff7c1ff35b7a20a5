"""Which worker has which task, so that the tasks of a worker that vanished are taken up by another.

Knows task names and heartbeats; knows nothing of what a task does. Celery itself gives an unacknowledged message to
another worker only after an hour. Tasks may run twice this way, which they are made for: what is finished or being
written already stays as it is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery

from workers import keys, lua
from workers.app import RedisClient
from workers.errors import QueueUnavailable, unavailable
from workers.queue import ALIVE_S

log = logging.getLogger(__name__)


class Leases:
    """The tasks of one worker.

    Args:
        client: from `make_redis`.
        worker: this worker's name, as in its heartbeat.
    """

    def __init__(self, client: RedisClient, worker: str) -> None:
        self._redis = client
        self._worker = worker
        self._held: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, task: str, tenant: str, key: str) -> Iterator[bool]:
        """Hold a task while it runs. Gives False if this process runs it already: then there is nothing to do.

        Raises:
            QueueUnavailable: Redis is away.
        """
        field = f"{task} {tenant} {key}"
        with self._lock:
            mine = field not in self._held
            self._held.add(field)
        if not mine:
            yield False
            return
        try:
            with unavailable():
                self._redis.hset(keys.RUNNING, field, self._worker)
            yield True
        finally:
            with self._lock:
                self._held.discard(field)
            try:
                with unavailable():
                    self._redis.hdel(keys.RUNNING, field)
            except QueueUnavailable:
                pass  # a task that is taken up once more finds itself finished

    def take_up(self, app: Celery) -> int:
        """Send the tasks of workers that are not heard of any more again. Returns how many.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with unavailable():
            fields = lua.run(self._redis, lua.TAKE_UP, [keys.RUNNING, keys.WORKERS], [self._worker, ALIVE_S])
            for field in fields:
                task, tenant, key = field.split(" ", 2)
                log.warning("the worker that had %s is gone; sending it again", field)
                app.send_task(task, args=[tenant, key], task_id=key, retry=False)
                self._redis.hdel(keys.RUNNING, field)
        return len(fields)
