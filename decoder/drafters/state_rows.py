"""StateRows: the hidden states of one sequence in one tensor that grows, and how alike some of them are.

Knows vectors and their positions; knows no model and no tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids

import torch
from numpy.typing import NDArray

from decoder.sequence import Sequence

ROOM = 1024
"""Answer tokens whose states there is room for from the start."""


class StateRows:
    """One row for each position from `first` on, in order.

    Half-precision states are compared in float32: their similarities lie too close together for 8 or 11 bits.

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
        needed = self._length + len(states)
        if self._buffer is None or needed > len(self._buffer):
            grown = states.new_empty(max(needed, self._planned, 2 * self._length), states.shape[1])
            if self._buffer is not None:
                grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
        self._buffer[self._length : needed] = states
        self._length = needed

    def cosines(self, positions: Ids[int] | NDArray, to: int) -> torch.Tensor:  # type: ignore[type-arg]
        """Cosine of the states at some positions with the state at position `to`; all of them must have rows.

        Returns:
            [n], float32, or float64 where the states are; 0 for states of length 0; on the states' device.
        """
        rows = self.rows
        wide = torch.promote_types(rows.dtype, torch.float32)
        at = torch.as_tensor(positions, dtype=torch.int64).to(rows.device) - self.first
        compared, here = rows.index_select(0, at).to(wide), rows[to - self.first].to(wide)
        lengths = torch.linalg.vector_norm(compared, dim=1) * torch.linalg.vector_norm(here)
        made: torch.Tensor = compared @ here / lengths.clamp_min(torch.finfo(wide).tiny)
        return made


def followed(rows: StateRows | None, sequence: Sequence, states: torch.Tensor) -> StateRows:
    """The rows of a sequence, grown by what its last step left behind: one for every committed token but the last.

    Args:
        rows: those so far; None after prefill.
        states: [rows of the step, D]. Where a stop cut the step, the last ones are of tokens that were not committed.
    """
    end = sequence.position - 1
    if rows is None:
        rows = StateRows(len(states) + min(sequence.params.max_tokens, ROOM), first=end - len(states))
    rows.append(states[: end - rows.end])
    return rows
