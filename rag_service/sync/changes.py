"""Waits for changes of a folder. Knows nothing of what a change means."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

from rag_service.sync.selection import hidden

QUIET_MS = 500
"""Changes are told once so long nothing has changed,"""
LONGEST_MS = 5000
"""and at the latest then."""
START_S = 30.0


class Changes:
    """Watches a folder in a thread, or nothing (None). A context manager.

    A change between two waits is not lost. Where the system cannot watch (network disks often), only time passes.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._changed = threading.Event()
        self._watching = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended = True

    def __enter__(self) -> Self:
        self.restart()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Return at the next change, or after so many seconds; True for a change."""
        told = self._changed.wait(seconds)
        self._changed.clear()
        return told

    def restart(self) -> None:
        """Watch, if that is not so already: a folder that was away may be back."""
        if self._folder is None or not self._ended:
            return
        self._ended = False
        self._watching.clear()
        self._thread = threading.Thread(target=self._watch, name="changes", daemon=True)
        self._thread.start()
        self._watching.wait(START_S)

    def _watch(self) -> None:
        from watchfiles import watch

        assert self._folder is not None
        folder = self._folder
        try:
            identity = _identity(folder)
            for changes in watch(
                folder,
                watch_filter=lambda _, path: not hidden(Path(path).relative_to(folder).as_posix()),
                debounce=LONGEST_MS,
                step=QUIET_MS,
                stop_event=self._stop,
                rust_timeout=QUIET_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                self._watching.set()
                if changes:
                    self._changed.set()
                if _identity(folder) != identity:  # another disk is mounted there, or none
                    break
        except OSError:
            pass  # the next pass says what is wrong with the folder
        finally:
            self._ended = True
            if self._watching.is_set():
                self._changed.set()
            self._watching.set()


def _identity(folder: Path) -> tuple[int, int]:
    info = folder.stat()
    return info.st_dev, info.st_ino
