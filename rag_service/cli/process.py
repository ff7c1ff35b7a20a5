"""Child processes that never outlive the command that started them.

Knows signals and logs; knows nothing of what the children do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_service.cli.console import FAILED, USAGE

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
STEADY = 60.0
"""Seconds after which a process counts as healthy, and the next wait is short again."""
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int | None) -> None:
    """Have this process terminated when its parent ends, also when that one is killed. Does nothing for None."""
    if parent is None:
        return
    # Elsewhere than on Linux the parent's own tidying up has to do.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this one is gone")


class Child:
    """A `rag` command in a process of its own, started again when it dies.

    Args:
        arguments: after `rag`.
        environment: variables set beside this process's own.
        log: file its output goes to.
        keep: file descriptors it inherits.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path, keep: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.log = log
        self._arguments = list(arguments)
        self._environment = dict(environment)
        self._keep = list(keep)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._wait = FIRST_WAIT
        self._again_at: float | None = None
        self.deaths = 0
        self.refused = False
        """Whether it ended by saying why it cannot run: starting it again would not help."""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "rag_service.cli", *self._arguments, "--parent", str(os.getpid())]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=self._keep,
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the children in order
            )
        self._started = time.monotonic()
        self._again_at = None

    def look(self) -> str | None:
        """Start the process again if it died and its wait is over. Returns what a person should know, if anything."""
        if self._again_at is not None:
            if time.monotonic() >= self._again_at:
                self.start()
            return None
        if self._process is None or (status := self._process.poll()) is None:
            return None
        if time.monotonic() - self._started > STEADY:
            self._wait = FIRST_WAIT
        self.deaths += 1
        self.refused = status in (FAILED, USAGE)
        wait, self._wait = self._wait, min(self._wait * 2, LONGEST_WAIT)
        self._again_at = time.monotonic() + wait
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"The {self.name} ended ({how}); another one starts in {wait:g} s. Its log: {self.log}"

    def last_words(self, lines: int = 5) -> str:
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-lines:])

    def stop(self, patience: float) -> None:
        """Ask it to end, and kill it after `patience` seconds."""
        process, self._process, self._again_at = self._process, None, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
