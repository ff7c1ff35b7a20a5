"""StateRows: the hidden states of one sequence in a growing tensor, and their cosine similarities.

Knows vectors and their positions; knows no model and no tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids

import torch
from numpy.typing import NDArray

from decoder.sequence import Sequence

INITIAL_TOKENS = 1024
"""Most answer tokens to reserve rows for at the start."""


class StateRows:
    """One row for each position from `first` on, in order.

    Half-precision states are compared in float32: their similarities are too close for 8 or 11 bits. All are kept in
    main memory: an accelerator takes longer to begin a comparison of a few rows than the processor to finish it.

    Args:
        capacity: rows to allocate at first; growing beyond them copies the tensor.
        first: position of the first row.
    """

    def __init__(self, capacity: int = 0, first: int = 0) -> None:
        self.first = first
        self._initial_capacity = capacity
        self._buffer: torch.Tensor | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def end(self) -> int:
        """Position after the last row."""
        return self.first + self._length

    @property
    def rows(self) -> torch.Tensor:
        """All rows: a view [n, D].

        Raises:
            ValueError: nothing was appended yet.
        """
        if self._buffer is None:
            raise ValueError("there are no hidden states yet; append some first")
        return self._buffer[: self._length]

    def append(self, states: torch.Tensor) -> None:
        """Add the states of the next positions, [n, D] of any floating dtype and on any device."""
        needed = self._length + len(states)
        if self._buffer is None or needed > len(self._buffer):
            size = max(needed, self._initial_capacity, 2 * self._length)
            grown = torch.empty(size, states.shape[1], dtype=states.dtype)
            if self._buffer is not None:
                grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
        self._buffer[self._length : needed] = states
        self._length = needed

    def cosines(self, positions: Ids[int] | NDArray, to: int) -> torch.Tensor:  # type: ignore[type-arg]
        """Cosine similarity of the states at some positions with the state at position `to`.

        Args:
            positions: n positions that have rows.
            to: a position that has a row.

        Returns:
            [n], in main memory; float64 if the states are, else float32. 0 for states of length 0.
        """
        rows = self.rows
        dtype = torch.promote_types(rows.dtype, torch.float32)
        indices = torch.as_tensor(positions, dtype=torch.int64) - self.first
        states, state = rows.index_select(0, indices).to(dtype), rows[to - self.first].to(dtype)
        lengths = torch.linalg.vector_norm(states, dim=1) * torch.linalg.vector_norm(state)
        cosines: torch.Tensor = states @ state / lengths.clamp_min(torch.finfo(dtype).tiny)
        return cosines


def extended(rows: StateRows | None, sequence: Sequence, states: torch.Tensor) -> StateRows:
    """The rows of a sequence after a step: one for every committed token but the last.

    Args:
        rows: the rows before the step; None after prefill.
        sequence: the sequence, after the step.
        states: [rows of the step, D]. If the answer ended within the step, the last rows belong to tokens that were
            not committed.
    """
    end = sequence.position - 1
    if rows is None:
        capacity = len(states) + min(sequence.params.max_tokens, INITIAL_TOKENS)
        rows = StateRows(capacity, first=end - len(states))
    rows.append(states[: end - rows.end])
    return rows
