"""DraftGate: decides for one answer whether its next step is worth the time that drafting takes.

Drafting takes the processor about a millisecond a step. Beside a pass of a hundred milliseconds that is nothing. Beside
a pass of five milliseconds over eight answers it is more than the pass takes for one of their tokens, and only an
answer that copies gains more. The gate learns how many tokens drafting adds to a step of this answer, from what it adds
to those of all answers, and opens where they are worth more than it takes. Closed, it still opens now and then: all
answers together may try for `EXPLORATION` of the time that plain decoding takes, those without a draft so far first.

Knows counts and seconds; knows no model and no tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EXPLORATION = 0.03
LEAST = 0.25
"""Tokens that drafting is always believed to add: where they are worth its time, the gate never closes."""
_WEIGHT = 0.3
"""Weight of a new step in an answer's moving average."""
_SHARED_WEIGHT = 0.02
"""The same in the average of all answers, and in that of drafting's time."""
_USUAL = 0.001
"""Seconds that a draft is believed to take before any was timed."""
_HOPED = 1.0
"""Tokens that a draft is believed to add before any was tried: one miss must not close the gate."""
_DOUBT = 4
"""Drafts that this belief weighs as much as."""
_PAUSE = 4
"""A draft counts as at most so many times the average: one that loads or compiles code takes a thousand times as long,
and a gate that believed it would stay closed."""
_LATER = 3
"""An answer that has had a draft tries again only where so many tries are saved up."""


@dataclass(slots=True)
class Drafting:
    """What drafting takes and adds in the answers of one engine. Seconds are those of the cost curve's clock.

    Attributes:
        seconds: the time of a draft and of its commit, a moving average.
        gain: tokens that a draft added to a step, less what its rows took, a moving average.
        drafts: how many there were.
        credit: seconds saved up for trials.
    """

    seconds: float = _USUAL
    gain: float = _HOPED
    drafts: int = 0
    credit: float = 0.0

    def took(self, seconds: float) -> None:
        """Learn from the time of a draft."""
        self.seconds += _SHARED_WEIGHT * (min(seconds, _PAUSE * self.seconds) - self.seconds)


@dataclass(slots=True)
class DraftGate:
    """One for each answer.

    Attributes:
        drafting: what the answers of the engine share.
        gain: tokens that drafting adds to a step of this answer; None before the first.
        drafted: whether the running step has a draft, even an empty one.
        seconds: what that draft took.
    """

    drafting: Drafting = field(default_factory=Drafting)
    gain: float | None = None
    drafted: bool = False
    seconds: float = 0.0

    def opens(self, token: float) -> bool:
        """Whether to draft in the next step.

        Args:
            token: seconds that plain decoding takes for one token of this answer, its share of a pass.
        """
        shared, known = self.drafting, self.gain is not None
        gain = shared.gain if self.gain is None else self.gain
        if max(gain, LEAST) * token >= shared.seconds:
            return True
        shared.credit = min(shared.credit + EXPLORATION * token, (_LATER + 1) * shared.seconds)
        if shared.credit < (_LATER if known else 1) * shared.seconds:
            return False
        shared.credit -= shared.seconds
        return True

    def learn(self, added: float, committing: float) -> None:
        """Learn from the running step, if it had a draft.

        Args:
            added: the tokens that it yielded beyond the first, less those that its rows' time would have yielded.
            committing: seconds that it took to keep what was accepted, and the drafter to see it.
        """
        if not self.drafted:
            return
        shared = self.drafting
        shared.took(self.seconds + committing)
        own = shared.gain if self.gain is None else self.gain
        self.gain = own + _WEIGHT * (added - own)
        shared.drafts += 1
        shared.gain += max(_SHARED_WEIGHT, 1 / (_DOUBT + shared.drafts)) * (added - shared.gain)
