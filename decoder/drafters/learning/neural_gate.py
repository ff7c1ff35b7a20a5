"""NeuralGate: whether running a neural drafter is worth its time beside the copies. Learned from what it added.

A copy costs microseconds, a neural draft a good part of a target pass. The gate keeps, by how much the copies promise,
how many tokens the neural drafter added to a step when it ran, and what a run takes; it lets it run where that raises
expected tokens per second. Where it would not, it is tried now and then, for at most `EXPLORATION` of the time plain
decoding would take, so that a change is noticed.

A neural drafter that is far behind has to catch up first, at the start of an answer with the whole prompt. That is paid
once and used by many runs, so it is priced apart, and such a run begins only once runs would have saved as much in this
answer and enough is left of it: a short answer is not made to pay for it, a long one loses at most that much again.

Knows counts and seconds; knows no model and no tree.
"""

from __future__ import annotations

import math
from bisect import bisect_right

EXPLORATION = 0.01
_PROMISES = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0)
"""Expected tokens of a step by copies alone, from which on a bucket counts."""
_TRIALS = 3
"""Runs before a bucket's gain is believed."""
_MEMORY = 0.95
FAR = 32
"""Tokens behind from which on catching up is priced apart from a run."""


class NeuralGate:
    """One for all sequences of an engine. Seconds are those of the cost curve's clock."""

    def __init__(self) -> None:
        self._gain = [0.0] * (len(_PROMISES) + 1)
        self._runs = [0] * (len(_PROMISES) + 1)
        self._seconds: float | None = None
        self._row: float | None = None
        self._credit = 0.0
        self._refused = 0.0

    def saving(self, promised: float, seconds: float, more: float) -> float:
        """Seconds that a run is believed to save in a step, less what it takes; 0 where it is not worth its time.

        Arguments as for `should_run`.
        """
        bucket = bisect_right(_PROMISES, promised)
        if self._seconds is None or self._runs[bucket] < _TRIALS:
            return 0.0
        return max(self._gain[bucket] * seconds / promised - self._seconds - more, 0.0)

    def should_run(
        self, promised: float, seconds: float, more: float, behind: int = 0, saved: float = 0.0, left: float = math.inf
    ) -> bool:
        """Whether to run the neural drafter in this step.

        Args:
            promised: expected tokens of the step with copies alone, at least 1.
            seconds: the sequence's share of what that step's pass costs.
            more: what the pass costs on top with the neural nodes in it.
            behind: tokens that the neural drafter has to catch up with first.
            saved: seconds that runs would have saved in this answer since the last one, besides this step's `saving`.
            left: tokens that the answer can still get.
        """
        if self._seconds is None:
            return True
        start = behind * (self._row or 0.0) if behind > FAR else 0.0
        saving = self.saving(promised, seconds, more)
        steps = left / (promised + self._gain[bisect_right(_PROMISES, promised)])
        if saving > 0 and min(saved + saving, steps * saving) >= start:
            return True
        price = self._seconds + more + start
        if self._credit >= price:
            self._credit -= price
            return True
        self._refused = price
        return False

    def ran(self, promised: float, added: int, seconds: float, behind: int = 0) -> None:
        """Learn from a run.

        Args:
            promised, behind: as for `should_run`.
            added: tokens the step yielded beyond what the copies alone would have yielded.
            seconds: what the run took.
        """
        bucket = bisect_right(_PROMISES, promised)
        self._runs[bucket] += 1
        weight = max(1.0 - _MEMORY, 1.0 / self._runs[bucket])
        self._gain[bucket] += weight * (added - self._gain[bucket])
        if behind > FAR:
            self._row = _learned(self._row, max(seconds - (self._seconds or 0.0), 0.0) / behind)
        else:
            self._seconds = _learned(self._seconds, seconds)

    def add_credit(self, plain_seconds: float) -> None:
        """Earn time for trials: what plain decoding would have taken for the tokens of a step."""
        self._credit = min(
            self._credit + EXPLORATION * plain_seconds, max(10 * (self._seconds or plain_seconds), self._refused)
        )


def _learned(known: float | None, seconds: float) -> float:
    """A moment of a busy machine makes a run look long; a short run is believed sooner than a long one."""
    if not known:
        return seconds
    return known + (0.2 if seconds < known else 0.05) * (min(seconds, 3 * known) - known)
