"""A lock that many readers share and one writer has alone. A writer that waits goes before new readers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class SharedLock:
    """Neither side may take it again while it has it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._writers = 0
        """Those that wait or write."""
        self._writing = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._writers)
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._condition:
            self._writers += 1
            self._condition.wait_for(lambda: not self._readers and not self._writing)
            self._writing = True
        try:
            yield
        finally:
            with self._condition:
                self._writing = False
                self._writers -= 1
                self._condition.notify_all()
