"""When to restart a process that died. Knows times; knows no processes."""

from __future__ import annotations

import time

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
STEADY = 60.0
"""Seconds after which a process counts as healthy; the next wait is then short again."""


class Restarts:
    """The deaths of one process; waits double while it keeps dying."""

    def __init__(self) -> None:
        self.deaths = 0
        self.in_a_row = 0
        """Deaths since it last ran for long."""
        self._started = 0.0
        self._again_at: float | None = None

    @property
    def waiting(self) -> bool:
        """Whether it died and has not been restarted yet."""
        return self._again_at is not None

    @property
    def due(self) -> bool:
        return self._again_at is not None and time.monotonic() >= self._again_at

    def started(self) -> None:
        self._started = time.monotonic()
        self._again_at = None

    def died(self) -> float:
        """Count a death. Returns the seconds to wait."""
        if time.monotonic() - self._started > STEADY:
            self.in_a_row = 0
        wait: float = min(FIRST_WAIT * 2**self.in_a_row, LONGEST_WAIT)
        self.deaths += 1
        self.in_a_row += 1
        self._again_at = time.monotonic() + wait
        return wait


def how(status: int) -> str:
    """How a process ended, by its exit status."""
    return f"signal {-status}" if status < 0 else f"exit status {status}"
