"""NeuralGate: decides whether a neural drafter is worth its time in a step, from what it added in earlier steps.

A copy costs microseconds, a neural draft a good part of a target pass. The gate learns how many tokens the neural
drafter adds to a step, by the tokens expected from copies alone, and how long a run takes. It opens if a run raises
the expected tokens per second. If not, it still opens now and then, for at most `EXPLORATION` of the time that plain
decoding would take, to notice a change.

A neural drafter that has not seen the last tokens has to process them first; at the start of an answer these are the
whole prompt. Many runs share that cost, so it has a price of its own: such a run waits until runs would have saved as
much in this answer and enough tokens remain. A short answer never pays; a long one loses at most as much again.

Knows counts and seconds; knows no model and no tree.
"""

from __future__ import annotations

import math
from bisect import bisect_right

EXPLORATION = 0.01
_EXPECTED = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0)
"""Least expected tokens of a step from copies alone, of each bucket but the first."""
_TRIALS = 3
"""Runs before a bucket's gain counts."""
_MEMORY = 0.95
FAR = 32
"""Unprocessed tokens from which on catching up has a price of its own."""


class NeuralGate:
    """One for all sequences of an engine. Seconds are those of the cost curve's clock."""

    def __init__(self) -> None:
        self._gain = [0.0] * (len(_EXPECTED) + 1)
        self._runs = [0] * (len(_EXPECTED) + 1)
        self._seconds: float | None = None
        self._row: float | None = None
        self._credit = 0.0
        self._rejected = 0.0

    def saving(self, expected: float, seconds: float, extra: float) -> float:
        """Expected seconds that a run saves in a step, net of its own time; 0 if it saves none.

        Arguments as for `should_run`.
        """
        bucket = bisect_right(_EXPECTED, expected)
        if self._seconds is None or self._runs[bucket] < _TRIALS:
            return 0.0
        return max(self._gain[bucket] * seconds / expected - self._seconds - extra, 0.0)

    def should_run(
        self,
        expected: float,
        seconds: float,
        extra: float,
        unprocessed: int = 0,
        saved: float = 0.0,
        remaining: float = math.inf,
    ) -> bool:
        """Whether to run the neural drafter in this step.

        Args:
            expected: tokens of the step with copies alone, at least 1.
            seconds: the sequence's share of the cost of that step's pass.
            extra: additional cost of the pass with the neural nodes in it.
            unprocessed: tokens that the neural drafter has to process first.
            saved: seconds that runs would have saved in this answer since the last run, without this step's `saving`.
            remaining: tokens that the answer can still get.
        """
        if self._seconds is None:
            return True
        start = unprocessed * (self._row or 0.0) if unprocessed > FAR else 0.0
        saving = self.saving(expected, seconds, extra)
        steps = remaining / (expected + self._gain[bisect_right(_EXPECTED, expected)])
        if saving > 0 and min(saved + saving, steps * saving) >= start:
            return True
        price = self._seconds + extra + start
        if self._credit >= price:
            self._credit -= price
            return True
        self._rejected = price
        return False

    def ran(self, expected: float, added: int, seconds: float, unprocessed: int = 0) -> None:
        """Learn from a run.

        Args:
            expected, unprocessed: as for `should_run`.
            added: tokens that the step yielded beyond those of the copies alone.
            seconds: duration of the run.
        """
        bucket = bisect_right(_EXPECTED, expected)
        self._runs[bucket] += 1
        weight = max(1.0 - _MEMORY, 1.0 / self._runs[bucket])
        self._gain[bucket] += weight * (added - self._gain[bucket])
        if unprocessed > FAR:
            self._row = _learned(self._row, max(seconds - (self._seconds or 0.0), 0.0) / unprocessed)
        else:
            self._seconds = _learned(self._seconds, seconds)

    def add_credit(self, plain_seconds: float) -> None:
        """Earn time for trials: the duration of plain decoding for the tokens of a step."""
        self._credit = min(
            self._credit + EXPLORATION * plain_seconds, max(10 * (self._seconds or plain_seconds), self._rejected)
        )


def _learned(known: float | None, seconds: float) -> float:
    """Moving average that trusts short runs sooner than long ones, which a busy machine may have caused."""
    if not known:
        return seconds
    return known + (0.2 if seconds < known else 0.05) * (min(seconds, 3 * known) - known)
