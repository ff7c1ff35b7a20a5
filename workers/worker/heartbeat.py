"""A worker's heartbeat, which begins once the models are loaded. Knows the worker's name and information."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from workers.broker import keys, lua
from workers.broker.app import RedisClient, make_redis
from workers.errors import QueueUnavailable, unavailable

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
SETTLE_S = 5.0
"""Seconds after an outage of Redis before `after_beat` is called again: other workers' heartbeats must come first."""
FORGOTTEN_S = 60
"""Seconds of silence after which a worker is removed from the list."""


def default_name(pid: int | None = None) -> str:
    """A unique worker name for a process, by default this one."""
    return f"{socket.gethostname()}-{os.getpid() if pid is None else pid}"


def forget_workers(redis_url: str, name: str | None = None) -> None:
    """Remove a dead worker, or all workers, from the list, so that its tasks are reclaimed at once.

    Does nothing while Redis is away: the entries expire.
    """
    with contextlib.closing(make_redis(redis_url)) as client, contextlib.suppress(QueueUnavailable), unavailable():
        if name is None:
            client.delete(keys.WORKERS, keys.WORKER_INFO)
        else:
            _forget(client, name)


def _forget(client: RedisClient, name: str) -> None:
    client.zrem(keys.WORKERS, name)
    client.hdel(keys.WORKER_INFO, name)


class Heartbeat:
    """Reports every second that this worker is alive, as long as `alive` returns True.

    Args:
        client: from `make_redis`.
        name: of this worker; unique.
        info: the worker's information in `Queue.workers`; called for each beat.
        alive: called before each beat.
        after_beat: called after each beat, but not right after an outage of Redis; may raise QueueUnavailable.
    """

    def __init__(
        self,
        client: RedisClient,
        name: str,
        info: Callable[[], Mapping[str, Any]],
        alive: Callable[[], bool] = lambda: True,
        after_beat: Callable[[], Any] = lambda: None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._redis = client
        self._name = name
        self._info = info
        self._settled_at = 0.0
        self._alive = alive
        self._after_beat = after_beat
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and remove the worker from the list. Safe to call more than once, and before `start`."""
        self._stopped.set()
        if self._thread.ident is None:
            return
        self._thread.join()
        with contextlib.suppress(QueueUnavailable), unavailable():  # if Redis is away, the entry expires
            _forget(self._redis, self._name)

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._alive():
                try:
                    info = json.dumps(dict(self._info()))
                    lua.run(self._redis, lua.BEAT, [keys.WORKERS, keys.WORKER_INFO], [self._name, info, FORGOTTEN_S])
                    if time.monotonic() >= self._settled_at:
                        self._after_beat()
                except QueueUnavailable as error:
                    self._settled_at = time.monotonic() + SETTLE_S
                    log.warning("no heartbeat: %s", error)
                except Exception:
                    log.exception("a task after the heartbeat failed")
            self._stopped.wait(self._interval_s)
