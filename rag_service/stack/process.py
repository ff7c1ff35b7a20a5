"""Child processes that never outlive the command that started them.

Knows signals and logs; knows nothing of what the children do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from rag_service.stack.exit_status import FAILED, USAGE
from workers.broker.log_file import LogFile
from workers.broker.restarts import Restarts, how

_PR_SET_PDEATHSIG = 1
STEP = re.compile(r" INFO [\w.]+: ((?:starting|loading|measuring|checking)\b.+)")
"""A line of a log that says what a process is doing while it starts."""
ORPHAN_S = 20.0
"""Seconds that a process whose parent was killed has to end by itself."""


def end_with_parent(parent: int | None) -> None:
    """Terminate this process when its parent ends, even if the parent is killed. Does nothing for None."""
    if parent is None:
        return
    # Only Linux has this; on other systems the parent stops its children itself.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("The parent of this process has ended.")
    threading.Thread(target=_end_orphaned, args=(parent,), name="parent", daemon=True).start()


def _end_orphaned(parent: int) -> None:
    """End this process hard if it still runs `ORPHAN_S` seconds after its parent: a handler of SIGTERM may hang."""
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(ORPHAN_S)
    os._exit(1)


def is_ready(url: str) -> bool:
    """Whether the API at an address can answer questions."""
    try:
        return httpx.get(f"{url}/readyz", timeout=5.0).is_success
    except httpx.HTTPError:
        return False


class Child:
    """A `rag` command in a process of its own, started again when it dies.

    Args:
        arguments: after `rag`.
        environment: variables added to those of this process.
        log: file that its output is appended to, each line with its time.
        keep: file descriptors it inherits.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path, keep: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.log = log
        self._output = LogFile(log)
        self._arguments = list(arguments)
        self._environment = dict(environment)
        self._keep = list(keep)
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = Restarts()
        self.refused = False
        """Whether it ended with an error that a new start would repeat."""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def deaths(self) -> int:
        return self._restarts.deaths

    def start(self) -> None:
        command = [sys.executable, "-m", "rag_service.cli", *self._arguments, "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=self._keep,
            start_new_session=True,  # Ctrl-C reaches only us; we stop the children in order
        )
        self._output.take(self._process)
        self._restarts.started()

    def look(self) -> str | None:
        """Restart the process if it died and its pause is over. Returns a message to print, if any."""
        if self._restarts.waiting:
            if self._restarts.due:
                self.start()
            return None
        if self._process is None or (status := self._process.poll()) is None:
            return None
        self.refused = status in (FAILED, USAGE)
        wait = self._restarts.died()
        return f"The {self.name} ended ({how(status)}); it starts again in {wait:g} s. Its log: {self.log}"

    def steps(self) -> list[str]:
        """What the last lines of its log say that it was doing while it started, in order."""
        return [found[1] for line in self._output.recent() if (found := STEP.search(line))]

    def last_words(self, lines: int = 5) -> str:
        """The last lines of the last process's output."""
        return "\n".join(self._output.last_words(lines))

    def stop(self, patience: float) -> None:
        """Terminate the process; kill it after `patience` seconds."""
        process, self._process = self._process, None
        self._restarts.started()  # not to be started again
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._output.close()
