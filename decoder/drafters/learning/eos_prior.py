"""EosPrior: the probability that an answer ends after a token, learned from answers that ended.

Drafts after the answer's last token are wasted, so the last pass of a short answer needs none. Only tokens that have
ended an answer have an entry; the answer is taken to continue after any other.

Knows token ids and counts; knows no tokenizer and no tree.
"""

from __future__ import annotations

import math
from typing import Any

_PRIOR = 3.0
"""Continuations that every token starts with."""
_MOST = 64.0
"""Most observations of a token; older ones fade."""


class EosPrior:
    """Counts of one domain's answers."""

    def __init__(self) -> None:
        self._seen: dict[int, list[float]] = {}  # token -> [times it ended an answer, occurrences]

    def chance(self, token: int) -> float:
        """Probability that the answer ends after a token; in [0, 1)."""
        counts = self._seen.get(token)
        return 0.0 if counts is None else counts[0] / (counts[1] + _PRIOR)

    def learn(self, token: int, ended: bool) -> None:
        """Count a token of an answer. `ended`: whether the answer ended after it."""
        counts = self._seen.get(token)
        if counts is None:
            if not ended:
                return
            counts = self._seen[token] = [0.0, 0.0]
        if counts[1] >= _MOST:
            counts[0] *= 0.5
            counts[1] *= 0.5
        counts[0] += ended
        counts[1] += 1.0

    def copy(self) -> EosPrior:
        copied = EosPrior()
        copied._seen = {token: list(counts) for token, counts in self._seen.items()}
        return copied

    def state(self) -> list[list[float]]:
        """A row a token: its id, the times it ended an answer, its occurrences."""
        return [[token, round(ended, 2), round(seen, 2)] for token, (ended, seen) in sorted(self._seen.items())]

    @classmethod
    def of(cls, state: Any) -> EosPrior:
        """The reverse of `state`. Raises TypeError for anything else."""
        prior = cls()
        if not isinstance(state, list):
            raise TypeError("the EOS prior is no list")
        for row in state:
            if not isinstance(row, list) or len(row) != 3 or not all(isinstance(value, int | float) for value in row):
                raise TypeError("the EOS prior's rows are not three numbers")
            token, ended, seen = row
            if not 0 <= ended <= seen < math.inf:
                raise TypeError(f"the EOS prior counts {ended} of {seen}")
            prior._seen[int(token)] = [float(ended), float(seen)]
        return prior
