"""Records which worker has which task, so that another worker reclaims the tasks of a vanished one.

Knows task names and heartbeats; knows nothing of what a task does. Celery itself gives an unacknowledged message to
another worker only after an hour. A message may come twice this way; while a live worker has the task, the second one
is dropped. If the first worker was only slow, the answer's epoch decides: its later writes are rejected.
"""

from __future__ import annotations

import contextlib
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
        lapse_s: seconds of silence after which a worker's leases lapse.
    """

    def __init__(self, client: RedisClient, worker: str, lapse_s: int = LAPSE_S) -> None:
        self._redis = client
        self._worker = worker
        self._lapse_s = lapse_s
        self._running: set[str] = set()
        self._sent_meanwhile: set[str] = set()
        """Tasks whose message came while they ran here."""
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, task: str, owner: str, key: str) -> Iterator[bool]:
        """Hold a task's lease while it runs. Yields False if the task runs already, here or elsewhere.

        A message for a task that runs here is remembered: this worker may have been slow, its lease may have lapsed and
        its writes may be rejected, so the message may be the one that must continue the task. After the task's release
        `reclaim` sends it again; if the task has ended, that has no effect.

        Raises:
            QueueUnavailable: Redis is away.
        """
        field = f"{task} {owner} {key}"
        with self._lock:
            first = field not in self._running
            (self._running if first else self._sent_meanwhile).add(field)
        if not first:
            yield False
            return
        try:
            names = [keys.RUNNING, keys.WORKERS]
            leased = bool(lua.run(self._redis, lua.HOLD, names, [field, self._worker, self._lapse_s]))
            if not leased:
                log.info("another worker has %s already", field)
            yield leased
        finally:
            # if Redis is away, the next `reclaim` of this worker sends the task again, although it has ended
            with contextlib.suppress(QueueUnavailable):
                lua.run(self._redis, lua.RELEASE_LEASE, [keys.RUNNING], [field, self._worker])
            with self._lock:
                self._running.discard(field)

    def reclaim(self, app: Celery) -> int:
        """Send the tasks of vanished workers again, and those that Redis assigns to this worker but do not run here.

        Returns their number.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with unavailable():
            with self._lock:  # a task that starts now is either among the script's arguments, or enters Redis after it
                running = sorted(self._running)
                meanwhile = sorted(self._sent_meanwhile - self._running)
                args = [self._worker, self._lapse_s, keys.GENERATE_TASK, *running]
                fields = lua.run(self._redis, lua.RECLAIM, [keys.RUNNING, keys.WORKERS], args)
            for field in fields:
                log.warning("the worker of %s vanished; sending it again", field)
                send(app, field)
                lua.run(self._redis, lua.RELEASE_LEASE, [keys.RUNNING], [field, f"resend {self._worker}"])
            for field in meanwhile:
                log.warning("a message for %s came while it ran here; sending it again", field)
                with self._lock:  # before sending it: it may come back here and start at once
                    self._sent_meanwhile.discard(field)
                try:
                    send(app, field)
                except BaseException:
                    with self._lock:
                        self._sent_meanwhile.add(field)
                    raise
        return len(fields) + len(meanwhile)
