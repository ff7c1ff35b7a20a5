"""DraftGate: decides for one answer whether its next step is worth the time that drafting takes.

Drafting takes the processor about a millisecond a step. Beside a pass of a hundred milliseconds that is nothing. Beside
a pass of five milliseconds over eight answers it is more than the pass takes for one of their tokens, and only an
answer that copies gains more. The gate learns how many tokens drafting has added to a step of this answer, and opens
where they are worth more than it takes. Closed, it still opens now and then, for at most `EXPLORATION` of the time that
plain decoding takes.

Knows counts and seconds; knows no model and no tree.
"""

from __future__ import annotations

from dataclasses import dataclass

EXPLORATION = 0.05
LEAST = 0.25
"""Tokens that drafting is always believed to add: where they are worth its time, the gate never closes."""
_TRIALS = 3
"""Drafted steps before the gain counts."""
_WEIGHT = 0.3
"""Weight of a new step in the moving average."""


@dataclass(slots=True)
class DraftGate:
    """One for each answer. All seconds are of one clock.

    Attributes:
        gain: tokens that drafting added to a step, a moving average.
        drafted: whether the running step has a draft, even an empty one.
    """

    gain: float = 0.0
    drafted: bool = False
    _steps: int = 0
    _credit: float = 0.0

    def opens(self, drafting: float, token: float) -> bool:
        """Whether to draft in the next step.

        Args:
            drafting: seconds that drafting takes.
            token: seconds that plain decoding takes for one token of this answer, its share of a pass.
        """
        if self._steps < _TRIALS or max(self.gain, LEAST) * token >= drafting:
            return True
        self._credit += EXPLORATION * token
        if self._credit < drafting:
            return False
        self._credit = 0.0
        return True

    def learn(self, added: int) -> None:
        """Learn from the running step, if it had a draft: the tokens that it yielded beyond the first."""
        if not self.drafted:
            return
        self._steps += 1
        self.gain += max(_WEIGHT, 1.0 / self._steps) * (added - self.gain)
