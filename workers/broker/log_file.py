"""A process's output as a file: a time on every line, and a bounded number of files of a bounded size.

Knows pipes and files; knows nothing of the process. A thread reads the pipe, so the output of the process, of its
libraries and of a crash is all in one file.
"""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
import threading
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path

MOST_BYTES = 5 * 2**20
GENERATIONS = 3
"""Number of older files, `NAME.1`, `NAME.2`, …"""
LINE_BYTES = 64 * 2**10
"""Longer lines are split."""
LAST_LINES = 20
CLOSE_S = 5.0
"""Longest wait for the rest of an ended process's output."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")


class LogFile:
    """Records the output of one process after the other.

    Args:
        path: of the file; its folder is created.
        most_bytes: size at which a new file begins.
        generations: number of older files.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, generations: int = GENERATIONS) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._generations = generations
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._thread: threading.Thread | None = None

    def take(self, process: subprocess.Popen[bytes]) -> None:
        """Record the output of a process, started with its output in a pipe, until it ends."""
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = deque(maxlen=LAST_LINES)
        self._thread = threading.Thread(
            target=self._run, args=(process, self._lines), name=f"log {self.path.name}", daemon=True
        )
        self._thread.start()

    def recent(self) -> list[str]:
        """The last lines so far of the process that runs, without waiting for more."""
        return list(self._lines.copy())

    def last_words(self, lines: int = 5) -> list[str]:
        """The last lines of the last process; complete once it has ended."""
        self.close()
        return [*self._lines][-lines:]

    def close(self) -> None:
        """Wait until all output of an ended process is in the file."""
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self, process: subprocess.Popen[bytes], lines: deque[str]) -> None:
        assert process.stdout is not None
        handler = _Rotating(
            self.path,
            maxBytes=self._most_bytes,
            backupCount=self._generations,
            encoding="utf-8",
            errors="replace",
            delay=True,  # opened with the first line, which may fail without harm
        )
        handler.setFormatter(_Stamped("%(asctime)s %(message)s"))
        with process.stdout as pipe:
            handler.handle(_record(f"process {process.pid} started"))
            while line := pipe.readline(LINE_BYTES):
                text = line.decode("utf-8", "replace").rstrip().rpartition("\r")[2]  # of progress bars, the last state
                if text:
                    lines.append(text)
                    handler.handle(_record(text))
        with contextlib.suppress(OSError):  # a full disk
            handler.close()


class _Rotating(RotatingFileHandler):
    """Ignores lines that cannot be written, as on a full disk: a process must never wait for its log."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class _Stamped(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return text if _STAMP.match(text) else super().format(record)


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord("", logging.INFO, "", 0, text, None, None)
