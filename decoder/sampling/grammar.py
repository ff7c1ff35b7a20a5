"""Grammars: which tokens may come next. Knows token ids; knows no grammar library and no text.

A grammar's state is part of an answer's history. It advances with every chosen token and with no other, so rejected
drafts leave no trace. `select` reads it once per position, after the penalties and before the temperature. A drafter
that looks ahead works on a copy.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class GrammarState(Protocol):
    """The state of one answer's grammar.

    A drafter may push a token that is not allowed to a copy; after that no token is allowed.
    """

    def allowed(self) -> NDArray[np.bool_]:
        """The tokens that may come next: bool [v]. Token ids from v on are not allowed."""

    def push(self, token: int) -> None:
        """Advance past a token."""

    @property
    def complete(self) -> bool:
        """Whether only the end can follow."""

    def copy(self) -> GrammarState:
        """An independent state at the same position."""


class Grammar(Protocol):
    """A compiled grammar, which many answers share."""

    def begin(self) -> GrammarState:
        """The state before the first token."""


def keep_allowed(scores: NDArray[np.float64], logits: NDArray[np.float64], state: GrammarState) -> NDArray[np.float64]:
    """Scores with -inf for tokens that the grammar does not allow; float64 [V] -> float64 [V].

    If biases forbid every allowed token, the raw `logits` of the allowed tokens are used instead. If the state allows
    no token, which happens only in drafts, the scores are returned unchanged.
    """
    allowed = np.zeros(len(scores), dtype=np.bool_)
    grammar_mask = state.allowed()[: len(scores)]
    allowed[: len(grammar_mask)] = grammar_mask
    if not allowed.any():
        return scores
    masked = np.where(allowed, scores, -np.inf)
    return masked if np.isfinite(masked).any() else np.where(allowed, logits, -np.inf)
