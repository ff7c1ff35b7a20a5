"""A matrix in the order in which machine code reads it: tiles of outputs, whose weights are next to each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy

import torch
import torch.nn.functional as F

Product = Callable[[torch.Tensor, torch.Tensor], None]
"""Multiplies rows, and writes the outcome."""
OUTPUTS = 64
"""Outputs of a tile, next to each other: four registers of 16 sums."""
AHEAD = 3072
"""Bytes of a matrix between what the code reads and what it asks memory for meanwhile, if the rows are one tile."""
BLOCK_BYTES = 1 << 17
"""Most bytes of a tile that are multiplied with all rows before the next: two such blocks are in a cache at once."""
PIECE_ROWS = 128
"""Most rows of a product, so that they stay in a cache beside the weights of a tile."""
_ALONE = 1 << 16
"""Products with fewer weights take one thread: waking another takes longer."""
_SHARES = 4
"""Stretches of tiles for each thread, so that one that is held up gets fewer."""


class TiledMatrix:
    """Weights, the outputs filled up to a multiple of `OUTPUTS` with zeros.

    Args:
        weight: [out, in], of any dtype, `in` a multiple of `group`.
        group: weights of an output that one instruction multiplies and adds.

    Attributes:
        tiles: [out / OUTPUTS, in / group, OUTPUTS, group].
        width: outputs with the zeros.
    """

    def __init__(self, weight: torch.Tensor, group: int) -> None:
        self.out, self.columns = weight.shape
        self.width = self.out + -self.out % OUTPUTS
        parts = self.filled(weight).view(-1, OUTPUTS, self.columns // group, group)
        self.tiles = parts.transpose(1, 2).clone(memory_format=torch.contiguous_format)  # torch aligns it to 64 bytes

    def filled(self, values: torch.Tensor) -> torch.Tensor:
        """Values of each output, [out, …], with zeros behind them; the same tensor if none are lacking."""
        if self.width == self.out:
            return values
        return F.pad(values, (0,) * (2 * values.dim() - 1) + (self.width - self.out,))

    def weight(self) -> torch.Tensor:
        """[out, in], a copy."""
        tiles = self.tiles.view(torch.int32) if self.tiles.shape[3] * self.tiles.itemsize == 4 else self.tiles  # faster
        ordered = tiles.transpose(1, 2).clone(memory_format=torch.contiguous_format)
        return ordered.view(self.tiles.dtype).view(self.width, self.columns)[: self.out]

    def rows(self, numbers: torch.Tensor) -> torch.Tensor:
        """The weights of some outputs, int64 [n] -> [n, in]."""
        rows = self.tiles[numbers // OUTPUTS, :, numbers % OUTPUTS]
        return rows.reshape(len(numbers), self.columns)

    def joined(self, matrices: Sequence[TiledMatrix]) -> TiledMatrix:
        """One of all outputs of these, which are of its kind, and share the memory of its tiles from now on."""
        whole = copy(self)
        whole.tiles = torch.cat([matrix.tiles for matrix in matrices])  # torch aligns it to 64 bytes
        whole.out = whole.width = whole.tiles.shape[0] * OUTPUTS
        parts = torch.split(whole.tiles, [matrix.tiles.shape[0] for matrix in matrices])
        for matrix, part in zip(matrices, parts, strict=True):
            matrix.tiles = part
        return whole

    @property
    def kind(self) -> Hashable | None:
        """The same for matrices that `joined` takes together; None for one that it does not."""
        return (self.columns, self.tiles.dtype) if self.width == self.out else None

    @property
    def threads(self) -> int:
        """How many multiply."""
        return 1 if self.tiles.numel() < _ALONE else torch.get_num_threads()

    @property
    def share(self) -> int:
        """How many tiles a thread takes at once."""
        return share_of(self.tiles.shape[0], self.threads)

    def multiply(self, rows: torch.Tensor, output: torch.Tensor, product: Product) -> None:
        """Let code multiply rows [n, in], and write the outcome to `output` [n, out], as `in_pieces`."""
        in_pieces(rows.contiguous(), output, self.width, product)


def in_pieces(rows: torch.Tensor, output: torch.Tensor, width: int, product: Product) -> None:
    """Let code multiply rows a piece at a time.

    Args:
        rows: [n, in], contiguous.
        output: [n, out], gets the outcome.
        width: outputs that the code writes, with those that fill the last tile.
        product: writes the products of rows [m, in] to [m, width], of their dtype.
    """
    count = rows.shape[0]  # `len` of a tensor takes five times as long, and this runs two hundred times in a pass
    direct = output.dtype is rows.dtype and output.is_contiguous() and width == output.shape[1]
    target = output if direct else torch.empty(count, width, dtype=rows.dtype)
    if 0 < count <= PIECE_ROWS:  # slices take as long as a small product
        product(rows, target)
    else:
        for first in range(0, count, PIECE_ROWS):
            product(rows[first : first + PIECE_ROWS], target[first : first + PIECE_ROWS])
    if not direct:
        output.copy_(target[:, : output.shape[1]])


def share_of(tiles: int, threads: int) -> int:
    """How many tiles a thread takes at once."""
    return max(tiles // (threads * _SHARES), 1)
