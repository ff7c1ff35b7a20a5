"""KVCache: the keys and values of one sequence, in one buffer that is written in place.

Knows layers, heads and positions; knows no tokens. The rows of the running pass follow the kept rows and are *pending*
until `keep` selects the accepted ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class KVCache:
    """Keys and values of one sequence: [layers, 2, kv_heads, capacity, head_dim].

    Attributes:
        length: number of kept rows, and the position of the next root.
        pending: number of rows that the last pass wrote after them, root first.
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
    def address(self) -> int:
        """Where the buffer lies in its device's memory; another place after it has grown."""
        return self._buffer.data_ptr()

    @property
    def nbytes(self) -> int:
        """Bytes of the whole buffer, used or not."""
        return self._buffer.nbytes

    def reserve(self, rows: int) -> None:
        """Make room for a pass over `rows` rows. Past the planned capacity the buffer grows, which copies it."""
        needed = self.length + rows
        if needed > self.capacity:
            self._move_to(max(needed, 2 * self.capacity))
        self.pending = rows

    def _move_to(self, capacity: int) -> None:
        """Copy the kept rows to a new buffer."""
        layers, two, heads, _, dim = self._buffer.shape
        with torch.inference_mode(False):  # `keep` could not write to a tensor that was created in inference mode
            buffer = self._buffer.new_empty(layers, two, heads, capacity, dim)
            buffer[:, :, :, : self.length] = self.rows()
        self._buffer = buffer

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one layer's pending rows.

        Args:
            layer: index of the decoder layer.
            keys, values: [1, kv_heads, pending, head_dim].

        Returns:
            keys and values of kept and pending rows: views [1, kv_heads, length + pending, head_dim].
        """
        here = self.pending_too(layer)
        for kept, new in zip(here, (keys, values), strict=True):
            kept[:, :, self.length :] = new
        return here

    def pending_too(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer's kept and pending rows: views [1, kv_heads, length + pending, head_dim]."""
        here, end = self._buffer[layer], self.length + self.pending
        return here[0:1, :, :end], here[1:2, :, :end]

    def layer(self, number: int) -> torch.Tensor:
        """One layer's memory for keys and values: a view [2, kv_heads, capacity, head_dim]."""
        return self._buffer[number]

    def keep(self, path: Sequence[int]) -> None:
        """Keep the root and the accepted nodes of the last pass, in order, and drop the other pending rows.

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
        """Drop every pending row, the root included."""
        self.pending = 0

    def keep_all(self) -> None:
        """Keep every pending row (prefill)."""
        self.length += self.pending
        self.pending = 0

    def take(self, other: KVCache) -> None:
        """Replace all rows by a copy of another cache's kept rows."""
        self.length = 0
        self.reserve(other.length)
        self._buffer[:, :, :, : other.length] = other.rows()
        self.keep_all()

    def truncate(self, length: int) -> None:
        """Keep the first `length` rows and drop the others.

        Raises:
            ValueError: the cache has fewer rows.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length must be 0 to {self.length}, the number of kept rows; got {length}")
        self.length = length
        self.pending = 0

    def copy(self, length: int) -> KVCache:
        """An independent cache of the first `length` kept rows, without room for more."""
        layers, _, heads, _, dim = self._buffer.shape
        copied = KVCache(layers, heads, dim, length, self._buffer.dtype, self._buffer.device)
        copied._buffer.copy_(self._buffer[:, :, :, :length])
        copied.length = length
        return copied

    def resize(self, capacity: int) -> None:
        """Move the kept rows to a buffer of another capacity.

        The buffer stays if its capacity is sufficient and at most a quarter larger.

        Raises:
            ValueError: the kept rows do not fit.
        """
        if capacity < self.length:
            raise ValueError(f"the capacity must be at least {self.length}, the number of kept rows; got {capacity}")
        if capacity <= self.capacity <= capacity * 5 // 4:
            return
        self._move_to(capacity)
        self.pending = 0

    def keys(self, layer: int) -> torch.Tensor:
        """Kept keys of one layer, after the rotary embedding: a view [kv_heads, length, head_dim]."""
        return self._buffer[layer, 0, :, : self.length]

    def fill_with_zeros(self, length: int) -> None:
        """Set the kept rows to `length` rows of zeros, to time passes of that size."""
        self._buffer[:, :, :, :length] = 0
        self.length = length

    def rows(self) -> torch.Tensor:
        """Kept rows: a view [layers, 2, kv_heads, length, head_dim]."""
        return self._buffer[:, :, :, : self.length]
