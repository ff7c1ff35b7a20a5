"""Successors: the tokens that a model favoured after each token, when it last chose one there. The adjacency matrix of
Token Recycling (arXiv 2408.08696), section 3.1. Knows token ids; knows no model and no tree.

One matrix serves all answers of a domain, as the paper's serves all requests. A service names a domain by tenant and
collection, so no draft of one tenant depends on another's text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_DOMAINS = 16
"""Matrices kept; one of 150,000 tokens takes 5 MB."""
_UNKNOWN = -1


class Successors:
    """One domain's matrix, empty at first.

    Args:
        vocab_size: V, the ids that have a row.
        best: k, successors of a token.
    """

    def __init__(self, vocab_size: int, best: int) -> None:
        self._rows: NDArray[np.int32] = np.full((vocab_size, best), _UNKNOWN, np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        """(V, k)."""
        return self._rows.shape

    def after(self, token: int) -> list[int]:
        """The k successors of a token, best first; empty if none were seen."""
        row: list[int] = self._rows[token].tolist()
        return [] if row[0] == _UNKNOWN else row

    def update(self, tokens: Sequence[int], best: Sequence[Sequence[int]]) -> None:
        """Replace the successors of tokens. Of a token that occurs twice, the later ones count.

        Args:
            tokens: n ids.
            best: [n, k] ids, best first.
        """
        self._rows[list(tokens)] = best


class SuccessorsByDomain:
    """The matrices of the domains that were used last."""

    def __init__(self) -> None:
        self._matrices: OrderedDict[str, Successors] = OrderedDict()

    def of(self, domain: str, vocab_size: int, best: int) -> Successors:
        """A domain's matrix [vocab_size, best]; an empty one if there is none of this shape."""
        matrix = self._matrices.pop(domain, None)
        if matrix is None or matrix.shape != (vocab_size, best):
            matrix = Successors(vocab_size, best)
        self._matrices[domain] = matrix
        if len(self._matrices) > MOST_DOMAINS:
            self._matrices.popitem(last=False)
        return matrix
