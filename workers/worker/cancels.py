"""Watches the cancel flags of all running answers and jobs in one thread.

Knows flags in Redis; knows no engine. A worker reads Redis once an interval, however many answers run, and only while
one runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from workers.broker.app import RedisClient
from workers.errors import QueueUnavailable, unavailable

log = logging.getLogger(__name__)

INTERVAL_S = 0.1


class CancelWatch:
    """Watches cancel flags. While Redis is away, nothing counts as cancelled."""

    def __init__(self, client: RedisClient, interval_s: float = INTERVAL_S) -> None:
        self._redis = client
        self._interval_s = interval_s
        self._away = False
        self._watched: dict[threading.Event, str] = {}
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cancels", daemon=True)
        self._thread.start()

    @contextmanager
    def watch(self, key: str) -> Iterator[threading.Event]:
        """An event that is set once the flag `key` exists; checked at once, then every interval."""
        event = threading.Event()
        self._try({event: key})
        with self._changed:
            self._watched[event] = key
            self._changed.notify()
        try:
            yield event
        finally:
            with self._changed:
                del self._watched[event]

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched and not self._closed.is_set():
                    self._changed.wait()
                watched = dict(self._watched)
            if self._closed.is_set():
                return
            self._try(watched)
            self._closed.wait(self._interval_s)

    def _try(self, watched: dict[threading.Event, str]) -> None:
        try:
            self._look(watched)
            self._away = False
        except QueueUnavailable as error:
            if not self._away:  # log once per outage
                log.warning("cancel flags cannot be read: %s", error)
            self._away = True

    def _look(self, watched: dict[threading.Event, str]) -> None:
        waiting = {event: key for event, key in watched.items() if not event.is_set()}
        if not waiting:
            return
        with unavailable():
            flags = self._redis.mget(list(waiting.values()))
        for event, flag in zip(waiting, flags, strict=True):
            if flag is not None:
                event.set()
