"""NeuralGate: whether running a neural drafter is worth its time beside the copies. Learned from what it added.

A copy costs microseconds, a neural draft a good part of a target pass. The gate keeps, by how much the copies promise,
how many tokens the neural drafter added to a step when it ran, and what a run takes; it lets it run where that raises
expected tokens per second. Where it would not, it is tried now and then, for at most `EXPLORATION` of the time plain
decoding would take, so that a change is noticed.

Knows counts and seconds; knows no model and no tree.
"""

from __future__ import annotations

from bisect import bisect_right

EXPLORATION = 0.01
_PROMISES = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0)
"""Expected tokens of a step by copies alone, from which on a bucket counts."""
_TRIALS = 3
"""Runs before a bucket's gain is believed."""
_MEMORY = 0.95


class NeuralGate:
    """One for all sequences of an engine. Seconds are those of the cost curve's clock."""

    def __init__(self) -> None:
        self._gain = [0.0] * (len(_PROMISES) + 1)
        self._runs = [0] * (len(_PROMISES) + 1)
        self._seconds: float | None = None
        self._credit = 0.0

    def opens(self, promised: float, seconds: float, more: float) -> bool:
        """Whether to run the neural drafter in this step.

        Args:
            promised: expected tokens of the step with copies alone, at least 1.
            seconds: what that step's pass costs.
            more: what the pass costs on top with the neural nodes in it.
        """
        if self._seconds is None:
            return True
        bucket = bisect_right(_PROMISES, promised)
        price = self._seconds + more
        if self._runs[bucket] >= _TRIALS and self._gain[bucket] / price > promised / seconds:
            return True
        if self._credit >= price:
            self._credit -= price
            return True
        return False

    def ran(self, promised: float, added: int, seconds: float) -> None:
        """Learn from a run.

        Args:
            promised: as for `opens`.
            added: tokens the step yielded beyond what the copies alone would have yielded.
            seconds: what the run took.
        """
        bucket = bisect_right(_PROMISES, promised)
        self._runs[bucket] += 1
        weight = max(1.0 - _MEMORY, 1.0 / self._runs[bucket])
        self._gain[bucket] += weight * (added - self._gain[bucket])
        known = seconds if self._seconds is None else self._seconds
        # A moment of a busy machine makes a run look long; a short run is believed sooner than a long one.
        self._seconds = known + (0.2 if seconds < known else 0.05) * (min(seconds, 3 * known) - known)

    def passed(self, plain_seconds: float) -> None:
        """Earn time for trials: what plain decoding would have taken for the tokens of a step."""
        self._credit = min(self._credit + EXPLORATION * plain_seconds, 10 * (self._seconds or plain_seconds))
