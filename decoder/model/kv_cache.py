"""KVCache: the keys and values of one sequence, in one buffer that is written in place.

Knows layers, heads and positions; knows no tokens. Rows of the running pass are *pending* behind the kept ones until
`keep` says which of them were accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class KVCache:
    """Keys and values of one sequence: [layers, 2, kv_heads, capacity, head_dim].

    Attributes:
        length: kept positions; the next root is written there.
        pending: rows the last pass wrote behind them, root first.
    """

    __slots__ = ("_buffer", "length", "pending")

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._buffer = torch.empty(layers, 2, kv_heads, capacity, head_dim, dtype=dtype, device=device)
        self.length = 0
        self.pending = 0

    @property
    def capacity(self) -> int:
        return self._buffer.shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole buffer, used or not."""
        return self._buffer.nbytes

    def reserve(self, rows: int) -> None:
        """Make room for a pass over `rows` rows; grows the buffer (a copy) only past the planned capacity."""
        needed = self.length + rows
        if needed > self.capacity:
            layers, two, heads, _, dim = self._buffer.shape
            with torch.inference_mode(False):  # passes run in it, and `keep` could not write what is made there
                grown = self._buffer.new_empty(layers, two, heads, max(needed, 2 * self.capacity), dim)
                grown[:, :, :, : self.length] = self._buffer[:, :, :, : self.length]
            self._buffer = grown
        self.pending = rows

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one layer's pending rows.

        Args:
            keys, values: [1, kv_heads, pending, head_dim].

        Returns:
            keys and values of kept and pending rows, views [1, kv_heads, length + pending, head_dim].
        """
        end = self.length + self.pending
        self._buffer[layer, 0, :, self.length : end] = keys[0]
        self._buffer[layer, 1, :, self.length : end] = values[0]
        return self._buffer[layer, 0:1, :, :end], self._buffer[layer, 1:2, :, :end]

    def keep(self, path: Sequence[int]) -> None:
        """Keep the root and the accepted nodes of the last pass, in order; the other rows are forgotten.

        Args:
            path: accepted node numbers (0 is the first draft node), ascending.
        """
        if any(path[i] != i for i in range(len(path))):
            rows = torch.tensor([self.length + 1 + node for node in path], device=self._buffer.device)
            start = self.length + 1
            self._buffer[:, :, :, start : start + len(path)] = self._buffer.index_select(3, rows)
        self.length += 1 + len(path)
        self.pending = 0

    def drop(self) -> None:
        """Forget every pending row, the root too: the pass decided nothing."""
        self.pending = 0

    def keep_all(self) -> None:
        """Keep every pending row (prefill)."""
        self.length += self.pending
        self.pending = 0

    def take(self, other: KVCache) -> None:
        """Start with a copy of another cache's kept rows, in place of what is here."""
        self.length = 0
        self.reserve(other.length)
        self._buffer[:, :, :, : other.length] = other.rows()
        self.keep_all()

    def truncate(self, length: int) -> None:
        """Forget the kept rows behind the first `length`."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot keep {length} of {self.length} rows")
        self.length = length
        self.pending = 0

    def copy(self, length: int) -> KVCache:
        """A cache of its own with the first `length` kept rows, and no room for more."""
        layers, _, heads, _, dim = self._buffer.shape
        copied = KVCache(layers, heads, dim, length, self._buffer.dtype, self._buffer.device)
        copied._buffer.copy_(self._buffer[:, :, :, :length])
        copied.length = length
        return copied

    def resize(self, capacity: int) -> None:
        """Move the kept rows to a buffer of another capacity, which must hold them.

        They stay where they are if there is as much room already, and no more than a quarter beyond it.
        """
        if capacity < self.length:
            raise ValueError(f"cannot keep {self.length} rows in a capacity of {capacity}")
        if capacity <= self.capacity <= capacity * 5 // 4:
            return
        layers, two, heads, _, dim = self._buffer.shape
        with torch.inference_mode(False):
            moved = self._buffer.new_empty(layers, two, heads, capacity, dim)
            moved[:, :, :, : self.length] = self._buffer[:, :, :, : self.length]
        self._buffer = moved
        self.pending = 0

    def keys(self, layer: int) -> torch.Tensor:
        """Kept keys of one layer, after the rotary embedding: a view [kv_heads, length, head_dim]."""
        return self._buffer[layer, 0, :, : self.length]

    def assume(self, length: int) -> None:
        """Take `length` rows of zeros for kept: for measuring passes, where only sizes matter."""
        self._buffer[:, :, :, :length] = 0
        self.length = length

    def rows(self) -> torch.Tensor:
        """Kept rows, a view [layers, 2, kv_heads, length, head_dim]."""
        return self._buffer[:, :, :, : self.length]
