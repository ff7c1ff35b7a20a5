"""A matrix of blocks in the order in which machine code reads it: records of 64 outputs and 256 columns.

A record has four spans of 64 columns, then `d` and `dmin` in float16. A span has its groups, each with its integers and
then its scales; Q4_K's minima, in pairs, come last. The code reads in this very order: memory that is read in any other
is a third slower. Knows the order of bytes; knows no product.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from copy import copy

import torch
import torch.nn.functional as F

from decoder.model.linear.blocks.block_rows import SPAN
from decoder.model.linear.blocks.file_blocks import BLOCK, GROUP, Blocks, read
from decoder.model.linear.tiled_matrix import OUTPUTS, Product, in_pieces
from decoder.weights.gguf_blocks import BlockFormat

BITS: dict[BlockFormat, int] = {"Q4_K": 4, "Q6_K": 6}
"""Of an integer."""
FOUR = 4
"""Columns that lie next to each other, so that one instruction multiplies and adds them."""
_PIECE = 64
"""Tiles of outputs that are put in order at once."""
_ALONE = 1 << 15
"""Products with fewer bytes take one thread: waking another takes longer."""


def group_bytes(kind: BlockFormat) -> int:
    """Bytes of a group: its integers, then its scales."""
    return integer_bytes(kind) + OUTPUTS


def integer_bytes(kind: BlockFormat) -> int:
    """Bytes of a group's integers."""
    return GROUP[kind] * BITS[kind] * OUTPUTS // 8


def span_bytes(kind: BlockFormat) -> int:
    """Bytes of a span: its groups, then the minima of Q4_K."""
    return SPAN // GROUP[kind] * (group_bytes(kind) + (OUTPUTS if kind == "Q4_K" else 0))


def record_bytes(kind: BlockFormat) -> int:
    """Bytes of a record: its spans, then `d` and `dmin`."""
    return BLOCK // SPAN * span_bytes(kind) + (4 if kind == "Q4_K" else 2) * OUTPUTS


class BlockMatrix:
    """Blocks [out, in] as records, the outputs filled up to a multiple of 64 with zeros.

    Args:
        pieces: the blocks of all outputs, in order, each but the last of a multiple of 64 outputs.
        out: all outputs.

    Attributes:
        records: uint8 [out / 64, in / 256, bytes of a record].
        width: outputs with the zeros.
    """

    def __init__(self, pieces: Iterator[Blocks], out: int) -> None:
        self.out, self.width = out, out + -out % OUTPUTS
        first = 0
        for blocks in pieces:
            part = _packed(blocks)
            if first == 0:
                self.format, self.columns = blocks.format, blocks.integers.shape[1]
                self.records = torch.empty(self.width // OUTPUTS, *part.shape[1:], dtype=torch.uint8)
            self.records[first : first + len(part)] = part
            first += len(part)

    @classmethod
    def from_file(cls, data: torch.Tensor, kind: BlockFormat) -> BlockMatrix:
        """The matrix of a tensor of a GGUF file, uint8 [out, bytes of a row]."""
        return cls((read(part, kind) for part in torch.split(data, _PIECE * OUTPUTS)), len(data))

    def rows(self, numbers: torch.Tensor) -> Blocks:
        """The blocks of some outputs, int64 [n]."""
        tiles, which = torch.unique(numbers // OUTPUTS, return_inverse=True)
        places = which * OUTPUTS + numbers % OUTPUTS
        order = torch.argsort(places)
        parts, first = [], 0
        for piece in torch.split(tiles, _PIECE):
            here = order[(places[order] >= first) & (places[order] < first + len(piece) * OUTPUTS)]
            parts.append(_unpacked(self.records[piece], self.format).rows(places[here] - first))
            first += len(piece) * OUTPUTS
        return _joined(parts).rows(torch.argsort(order))

    def weight(self) -> torch.Tensor:
        """float32 [out, in]."""
        parts = [_unpacked(piece, self.format).weight() for piece in torch.split(self.records, _PIECE)]
        return torch.cat(parts)[: self.out]

    @property
    def kind(self) -> Hashable | None:
        """As `TiledMatrix.kind`."""
        return (self.columns, self.format) if self.width == self.out else None

    def joined(self, matrices: Sequence[BlockMatrix]) -> BlockMatrix:
        """As `TiledMatrix.joined`."""
        whole = copy(self)
        whole.records = torch.cat([matrix.records for matrix in matrices])
        whole.out = whole.width = whole.records.shape[0] * OUTPUTS
        parts = torch.split(whole.records, [matrix.records.shape[0] for matrix in matrices])
        for matrix, part in zip(matrices, parts, strict=True):
            matrix.records = part
        return whole

    @property
    def threads(self) -> int:
        """How many multiply."""
        return 1 if self.records.numel() < _ALONE else torch.get_num_threads()

    def filled(self, values: torch.Tensor) -> torch.Tensor:
        """Values of each output, [out], with zeros behind them."""
        return F.pad(values, (0, self.width - self.out))

    def multiply(self, rows: torch.Tensor, output: torch.Tensor, product: Product) -> None:
        """As `TiledMatrix.multiply`, of contiguous rows."""
        in_pieces(rows, output, self.width, product)


def _packed(blocks: Blocks) -> torch.Tensor:
    """uint8 [tiles, blocks, record]."""
    kind, (out, columns) = blocks.format, blocks.integers.shape
    width, count, spans = out + -out % OUTPUTS, columns // BLOCK, BLOCK // SPAN

    def tiles(values: torch.Tensor, *shape: int) -> torch.Tensor:
        """[out, …] -> uint8 [tiles, blocks, spans, …, OUTPUTS, n]."""
        filled = F.pad(values.clone(memory_format=torch.contiguous_format).view(torch.uint8), (0, 0, 0, width - out))
        return filled.view(width // OUTPUTS, OUTPUTS, count, *shape, -1).movedim(1, -2)

    integers = F.pad(blocks.integers, (0, 0, 0, width - out)).view(width // OUTPUTS, OUTPUTS, count, BLOCK)
    stored = (
        _bytes_of(integers, kind).movedim(1, -2).reshape(*integers.shape[:1], count, spans, -1, integer_bytes(kind))
    )
    scales = tiles(blocks.scales, spans, SPAN // GROUP[kind])[..., 0]
    parts = [torch.cat((stored, scales), dim=-1).flatten(3)]
    if blocks.minima is not None:
        parts.append(tiles(blocks.minima, spans).flatten(3))
    floats = [tiles(part).flatten(2) for part in (blocks.d, blocks.dmin) if part is not None]
    return torch.cat((torch.cat(parts, dim=-1).flatten(2), *floats), dim=-1)


def _bytes_of(integers: torch.Tensor, kind: BlockFormat) -> torch.Tensor:
    """Integers [tiles, OUTPUTS, blocks, BLOCK] -> the bytes that hold them, [tiles, OUTPUTS, blocks, …, FOUR]."""
    if kind == "Q4_K":  # eight columns in four bytes, the latter four in the upper halves
        low, high = integers.reshape(*integers.shape[:-1], -1, 2, FOUR).unbind(-2)
        return torch.bitwise_or(low, high << 4)
    fours = integers.reshape(*integers.shape[:-1], -1, 4, FOUR)  # a group takes 12 bytes: the rest, two fours as above
    lows = fours & 15
    highs = (fours >> 4).unbind(-2)
    halves = lows[..., 0::2, :] | (lows[..., 1::2, :] << 4)
    rest = highs[0] | (highs[1] << 2) | (highs[2] << 4) | (highs[3] << 6)
    return torch.cat((rest[..., None, :], halves), dim=-2)


def _unpacked(records: torch.Tensor, kind: BlockFormat) -> Blocks:
    """The blocks of records, with those of the zeros."""
    tiles, count, _ = records.shape
    inside, out, ends = SPAN // GROUP[kind], tiles * OUTPUTS, BLOCK // SPAN * span_bytes(kind)
    spans, floats = records[..., :ends].reshape(tiles, count, BLOCK // SPAN, -1), records[..., ends:]
    in_groups, minima = spans[..., : inside * group_bytes(kind)], spans[..., inside * group_bytes(kind) :]
    in_groups = in_groups.reshape(tiles, count, BLOCK // GROUP[kind], -1)
    d, *dmin = torch.split(floats, 2 * OUTPUTS, dim=-1)

    def outputs(part: torch.Tensor, *shape: int) -> torch.Tensor:
        """[tiles, blocks, …, OUTPUTS, n] -> [out, …]."""
        return part.reshape(tiles, count, *shape).movedim(-2, 1).reshape(out, -1)

    scales = outputs(in_groups[..., -OUTPUTS:], BLOCK // GROUP[kind], OUTPUTS, 1)
    integers = in_groups[..., :-OUTPUTS].reshape(tiles, count, -1, OUTPUTS, FOUR).movedim(-2, 1)
    return Blocks(
        kind,
        _integers_of(integers, kind).reshape(out, -1),
        scales if kind == "Q4_K" else scales.view(torch.int8),
        outputs(minima, BLOCK // SPAN, OUTPUTS, 2) if kind == "Q4_K" else None,
        outputs(d, OUTPUTS, 2).view(torch.float16),
        outputs(dmin[0], OUTPUTS, 2).view(torch.float16) if dmin else None,
    )


def _integers_of(stored: torch.Tensor, kind: BlockFormat) -> torch.Tensor:
    """Bytes [tiles, OUTPUTS, blocks, n, FOUR] -> integers [tiles, OUTPUTS, blocks, groups, …]."""
    if kind == "Q4_K":
        return torch.stack((stored & 15, stored >> 4), dim=-2)
    rest, first, second = stored.reshape(*stored.shape[:-2], -1, 3, FOUR).unbind(-2)
    lows = torch.stack((first & 15, first >> 4, second & 15, second >> 4), dim=-2)
    highs = torch.stack([(rest >> shift) & 3 for shift in (0, 2, 4, 6)], dim=-2)
    return lows | (highs << 4)


def _joined(parts: list[Blocks]) -> Blocks:
    """The blocks of all outputs of the parts."""

    def join(name: str) -> torch.Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    least = (join("minima"), join("dmin")) if parts[0].format == "Q4_K" else (None, None)
    return Blocks(parts[0].format, join("integers"), join("scales"), least[0], join("d"), least[1])
