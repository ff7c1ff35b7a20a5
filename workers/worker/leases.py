"""Which worker has which task, so that the tasks of a worker that vanished are taken up by another.

Knows task names and heartbeats; knows nothing of what a task does. Celery itself gives an unacknowledged message to
another worker only after an hour. A message may come twice this way; while a worker that is heard of has the task, the
second one is dropped. Where a worker was only slow, the answer's epoch decides: what it writes afterwards is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery

from workers.broker import keys, lua
from workers.broker.app import LAPSE_S, RedisClient
from workers.errors import QueueUnavailable, unavailable
from workers.worker.unfinished import send

log = logging.getLogger(__name__)


class Leases:
    """The tasks of one worker.

    Args:
        client: from `make_redis`.
        worker: this worker's name, as in its heartbeat.
        lapse_s: seconds of silence after which a worker's tasks are taken up.
    """

    def __init__(self, client: RedisClient, worker: str, lapse_s: int = LAPSE_S) -> None:
        self._redis = client
        self._worker = worker
        self._lapse_s = lapse_s
        self._held: set[str] = set()
        self._sent_meanwhile: set[str] = set()
        """Tasks whose message came while they were held here."""
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, task: str, tenant: str, key: str) -> Iterator[bool]:
        """Hold a task while it runs. Gives False if it runs already, here or elsewhere: then there is nothing to do.

        A message for a task that is held here is remembered: this worker may have been slow, its lease may have lapsed
        and its writes may be refused, and the message may be the one that was to go on. Once the task is let go,
        `reclaim` sends it again; where it had ended, nothing comes of that.

        Raises:
            QueueUnavailable: Redis is away.
        """
        field = f"{task} {tenant} {key}"
        with self._lock:
            mine = field not in self._held
            (self._held if mine else self._sent_meanwhile).add(field)
        if not mine:
            yield False
            return
        try:
            names = [keys.RUNNING, keys.WORKERS]
            args: list[str | int | float] = [field, self._worker, self._lapse_s]
            with unavailable():
                ours = bool(lua.run(self._redis, lua.HOLD, names, args))
            if not ours:
                log.info("another worker has %s already", field)
            yield ours
        finally:
            try:
                with unavailable():
                    lua.run(self._redis, lua.RELEASE_LEASE, [keys.RUNNING], [field, self._worker])
            except QueueUnavailable:
                pass  # the next `reclaim` of this worker sends it again, and it finds itself finished
            with self._lock:
                self._held.discard(field)

    def reclaim(self, app: Celery) -> int:
        """Send the tasks of workers that are not heard of any more again. Returns how many.

        So are those that this worker is said to have and does not run.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with unavailable():
            with self._lock:  # a task that is taken now is either known to the script, or told to Redis behind it
                meanwhile = sorted(self._sent_meanwhile - self._held)
                args: list[str | int | float] = [self._worker, self._lapse_s, keys.GENERATE_TASK, *sorted(self._held)]
                fields = lua.run(self._redis, lua.RECLAIM, [keys.RUNNING, keys.WORKERS], args)
            for field in fields:
                log.warning("the worker that had %s is gone; sending it again", field)
                send(app, field)
                lua.run(self._redis, lua.RELEASE_LEASE, [keys.RUNNING], [field, f"resend {self._worker}"])
            for field in meanwhile:
                log.warning("%s was sent while it was held here; sending it again", field)
                with self._lock:  # before it is sent: it may come back here, and be held, at once
                    self._sent_meanwhile.discard(field)
                try:
                    send(app, field)
                except BaseException:
                    with self._lock:
                        self._sent_meanwhile.add(field)
                    raise
        return len(fields) + len(meanwhile)
