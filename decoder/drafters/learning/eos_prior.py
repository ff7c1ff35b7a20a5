"""EosPrior: the probability that an answer ends after a token, learned from answers that ended.

Drafts after the answer's last token are wasted, so the last pass of a short answer needs none. Only tokens that have
ended an answer have an entry; the answer is taken to continue after any other.

Knows token ids and counts; knows no tokenizer and no tree.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

PRIOR = 3.0
"""Continuations that every token starts with."""
_MOST = 64.0
"""Most observations of a token; older ones fade."""


class EosPrior:
    """Counts of one domain's answers.

    Attributes:
        tokens: int64 [n], ascending: those that have ended an answer.
        ended, observed: float64 [n], how often each ended an answer, and occurred.
    """

    def __init__(self) -> None:
        self._set(np.empty(0, np.int64), np.empty(0), np.empty(0))

    def _set(self, tokens: NDArray[np.int64], ended: NDArray[np.float64], observed: NDArray[np.float64]) -> None:
        self.tokens, self.ended, self.observed = tokens, ended, observed
        self._rows: dict[int, int] = dict(zip(tokens.tolist(), range(len(tokens)), strict=True))

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """The memory of all counts, for compiled code: tokens, ended and observed."""
        return self.tokens, self.ended, self.observed

    def chance(self, token: int) -> float:
        """Probability that the answer ends after a token; in [0, 1)."""
        row = self._rows.get(token)
        return 0.0 if row is None else float(self.ended[row] / (self.observed[row] + PRIOR))

    def learn(self, token: int, ended: bool) -> None:
        """Count a token of an answer. `ended`: whether the answer ended after it."""
        row = self._rows.get(token)
        if row is None:
            if not ended:
                return
            row = int(np.searchsorted(self.tokens, token))
            self._set(
                np.insert(self.tokens, row, token), np.insert(self.ended, row, 0.0), np.insert(self.observed, row, 0.0)
            )
        if self.observed[row] >= _MOST:
            self.ended[row] *= 0.5
            self.observed[row] *= 0.5
        self.ended[row] += ended
        self.observed[row] += 1.0

    def copy(self) -> EosPrior:
        copied = EosPrior()
        copied._set(self.tokens.copy(), self.ended.copy(), self.observed.copy())
        return copied

    def state(self) -> list[list[float]]:
        """A row a token: its id, the times it ended an answer, its occurrences."""
        columns = zip(self.tokens.tolist(), self.ended.tolist(), self.observed.tolist(), strict=True)
        return [[token, round(ended, 2), round(observed, 2)] for token, ended, observed in columns]

    @classmethod
    def of(cls, state: Any) -> EosPrior:
        """The reverse of `state`. Raises TypeError for anything else."""
        rows: dict[int, tuple[float, float]] = {}
        if not isinstance(state, list):
            raise TypeError("the EOS prior is no list")
        for row in state:
            if not isinstance(row, list) or len(row) != 3 or not all(isinstance(value, int | float) for value in row):
                raise TypeError("the EOS prior's rows are not three numbers")
            token, ended, seen = row
            if not 0 <= ended <= seen < math.inf:
                raise TypeError(f"the EOS prior counts {ended} of {seen}")
            rows[int(token)] = float(ended), float(seen)
        tokens = sorted(rows)
        counts = np.array([rows[token] for token in tokens]).reshape(-1, 2)
        prior = cls()
        prior._set(np.array(tokens, np.int64), counts[:, 0].copy(), counts[:, 1].copy())
        return prior
