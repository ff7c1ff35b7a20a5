"""Paths: the keys that each row of a pass sees, in the order of its text. Knows rows and keys; knows no tensor of them.

All rows see the first keys of their cache; those of a row's own path follow, wherever they lie in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

KEYS = 32
"""Keys whose scores are computed together."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The keys of rows [first, past) of a sequence's part of a pass.

    Attributes:
        shared: each row sees this many first keys, a multiple of `KEYS`.
        keys: int64 [past - first, a multiple of `KEYS`], the numbers of the keys after them, in order; what stands
            behind a row's last one is any key.
        lengths: int64 [past - first], how many of them each row has, at least one.
    """

    first: int
    past: int
    shared: int
    keys: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def of(cls, before: int, own: NDArray[np.bool_], first: int = 0) -> Paths:
        """The paths of some rows.

        Args:
            before: the number of keys that all of them see, which come first.
            own: bool [n, n], which of the following n keys, the rows' own, each row sees; its own is the last.
            first: the number of the first row.
        """
        shared = before - before % KEYS
        tail = before - shared
        lengths = own.sum(1) + tail
        width = int(lengths.max()) + -int(lengths.max()) % KEYS
        keys = np.full((len(own), width), before, np.int64)
        keys[:, :tail] = np.arange(shared, before)
        rows, numbers = own.nonzero()  # row by row, ascending
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths - tail) - (lengths - tail), lengths - tail)
        keys[rows, tail + places] = before + numbers
        return cls(first, first + len(own), shared, torch.from_numpy(keys), torch.from_numpy(lengths))

    @classmethod
    def pieces(cls, before: int, rows: int, most: int) -> Iterator[Paths]:
        """The paths of rows of running text, which see all keys up to their own, `most` rows at a time."""
        for first in range(0, rows, most):
            past = min(first + most, rows)
            yield cls.of(before + first, np.tri(past - first, dtype=np.bool_), first)
