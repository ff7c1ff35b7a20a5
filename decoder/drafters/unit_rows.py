"""UnitRows: the hidden states of one sequence, each scaled to length 1, in one tensor that grows.

Knows vectors and their positions; knows no model and no tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids

import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from decoder.sequence import Sequence

ROOM = 1024
"""Answer tokens whose states there is room for from the start."""


class UnitRows:
    """One row for each position from `first` on, in order.

    Half-precision states are kept in float32: their similarities lie too close together for 8 or 11 bits.

    Args:
        capacity: rows to make room for at once; more are taken, at the price of a copy.
        first: position of the first row; what lies before it has none.
    """

    def __init__(self, capacity: int = 0, first: int = 0) -> None:
        self.first = first
        self._planned = capacity
        self._buffer: torch.Tensor | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def end(self) -> int:
        """Position behind the last row."""
        return self.first + self._length

    @property
    def rows(self) -> torch.Tensor:
        """All rows, a view [n, D]."""
        if self._buffer is None:
            raise ValueError("no hidden states have come in yet; append some first")
        return self._buffer[: self._length]

    def append(self, states: torch.Tensor) -> None:
        """Add the states of the next positions, [n, D] of any floating dtype."""
        wide = states.to(torch.promote_types(states.dtype, torch.float32))
        needed = self._length + len(wide)
        if self._buffer is None or needed > len(self._buffer):
            grown = wide.new_empty(max(needed, self._planned, 2 * self._length), wide.shape[1])
            if self._buffer is not None:
                grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
        self._buffer[self._length : needed] = F.normalize(wide, dim=1)
        self._length = needed

    def cosines(self, positions: Ids[int] | NDArray, to: int) -> torch.Tensor:  # type: ignore[type-arg]
        """Cosine of the states at some positions with the state at position `to`; all of them must have rows.

        Returns:
            [n], float32, or float64 where the states are; on the states' device.
        """
        rows = self.rows
        at = torch.as_tensor(positions, dtype=torch.int64).to(rows.device) - self.first
        return rows.index_select(0, at) @ rows[to - self.first]


def followed(rows: UnitRows | None, sequence: Sequence, states: torch.Tensor) -> UnitRows:
    """The rows of a sequence, grown by what its last step left behind: one for every committed token but the last.

    Args:
        rows: those so far; None after prefill.
        states: [rows of the step, D]. Where a stop cut the step, the last ones are of tokens that were not committed.
    """
    end = sequence.position - 1
    if rows is None:
        rows = UnitRows(len(states) + min(sequence.params.max_tokens, ROOM), first=end - len(states))
    rows.append(states[: end - rows.end])
    return rows
