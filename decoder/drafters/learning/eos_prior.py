"""EosPrior: how likely an answer ends behind a token, learned from answers that ended.

What is drafted behind a token that ends the answer is lost, so a short answer's last pass need carry no draft. Only
tokens that have ended an answer are known; any other is taken to go on.

Knows token ids and counts; knows no tokenizer and no tree.
"""

from __future__ import annotations

import math
from typing import Any

_PRIOR = 3.0
"""Times a token is taken to have gone on before anything was seen of it."""
_MOST = 64.0
"""Times of a token that are remembered; older ones fade."""


class EosPrior:
    """Counts of one domain's answers."""

    def __init__(self) -> None:
        self._seen: dict[int, list[float]] = {}  # token -> [times it ended an answer, times it stood there]

    def chance(self, token: int) -> float:
        """Chance that the answer ends behind a token; in [0, 1)."""
        counts = self._seen.get(token)
        return 0.0 if counts is None else counts[0] / (counts[1] + _PRIOR)

    def learn(self, token: int, ended: bool) -> None:
        """Count a token of an answer."""
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
        made = EosPrior()
        made._seen = {token: list(counts) for token, counts in self._seen.items()}
        return made

    def state(self) -> list[list[float]]:
        """Rows of a token, the times it ended an answer and the times it stood in one; for `of`."""
        return [[token, round(ended, 2), round(seen, 2)] for token, (ended, seen) in sorted(self._seen.items())]

    @classmethod
    def of(cls, state: Any) -> EosPrior:
        """What `state` wrote. Raises TypeError for anything else."""
        made = cls()
        if not isinstance(state, list):
            raise TypeError("its endings are no list")
        for row in state:
            if not isinstance(row, list) or len(row) != 3 or not all(isinstance(value, int | float) for value in row):
                raise TypeError("its endings are no rows of three numbers")
            token, ended, seen = row
            if not 0 <= ended <= seen < math.inf:
                raise TypeError(f"its endings count {ended} of {seen}")
            made._seen[int(token)] = [float(ended), float(seen)]
        return made
