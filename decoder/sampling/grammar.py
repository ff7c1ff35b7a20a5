"""What an answer may say, where it has to follow a grammar. Knows token ids; knows no grammar library and no text.

A grammar's state is part of an answer's history: it advances with every token that is chosen and with no other, so a
walk through a draft tree judges each node by its own path, and what the walk rejects never was. `select` asks it once a
position, before penalties' scores are divided by the temperature. Whoever looks ahead does so on a copy.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class GrammarState(Protocol):
    """Where an answer stands in its grammar. Tokens that the grammar does not allow may be pushed by those who look
    ahead: from then on nothing is allowed."""

    def allowed(self) -> NDArray[np.bool_]:
        """bool [v]: the tokens that may come next; those from v on may not."""

    def push(self, token: int) -> None:
        """Go on behind a token."""

    @property
    def complete(self) -> bool:
        """Whether nothing can follow but the end."""

    def copy(self) -> GrammarState:
        """A state of its own at the same place."""


class Grammar(Protocol):
    """A compiled grammar, shared by answers."""

    def begin(self) -> GrammarState:
        """The state before the first token."""


def keep_allowed(scores: NDArray[np.float64], logits: NDArray[np.float64], state: GrammarState) -> NDArray[np.float64]:
    """Scores with -inf for what may not come next; float64 [V] -> float64 [V].

    Where biases forbid everything that the grammar allows, the grammar counts and `logits` decide. A state that allows
    nothing forbids nothing: only drafts get there.
    """
    allowed = np.zeros(len(scores), dtype=np.bool_)
    told = state.allowed()[: len(scores)]
    allowed[: len(told)] = told
    if not allowed.any():
        return scores
    kept = np.where(allowed, scores, -np.inf)
    return kept if np.isfinite(kept).any() else np.where(allowed, logits, -np.inf)
