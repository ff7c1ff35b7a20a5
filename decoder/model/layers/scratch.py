"""Memory for what prepared calls write beside their outputs."""

from __future__ import annotations

import math

import torch

ROWS = 64
"""Most rows that go through a layer as prepared calls: of more, Python's part of a pass is small."""


class Scratch:
    """Memory for what calls write, shared by all layers, which run one after the other, and all numbers of rows. So
    one thread at a time may run passes of a model."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], torch.Tensor] = {}
        self._taken = 0

    def anew(self) -> Scratch:
        """The same memory, for another layer."""
        self._taken = 0
        return self

    def __call__(self, *size: int, dtype: torch.dtype) -> torch.Tensor:
        """As `Empty`, of at most `ROWS` rows."""
        rows, *columns = size
        key = (self._taken, *columns, dtype)
        self._taken += 1
        if key not in self._kept:
            self._kept[key] = torch.empty(ROWS, *columns, dtype=dtype)
        return self._kept[key][:rows]


class Reused:
    """Memory for calls of any size that run one after the other: what the first writes beside its output, the next
    writes over."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._taken = 0

    def anew(self) -> Reused:
        """The same memory, for another call."""
        self._taken = 0
        return self

    def __call__(self, *size: int, dtype: torch.dtype) -> torch.Tensor:
        """As `Empty`."""
        count, number = math.prod(size), self._taken
        self._taken += 1
        if number == len(self._kept):
            self._kept.append(torch.empty(count, dtype=dtype))
        elif self._kept[number].numel() < count:
            self._kept[number] = torch.empty(count, dtype=dtype)
        return self._kept[number][:count].view(size)
