"""The blocks of GGUF's formats Q4_K and Q6_K: integers of four or six bits, with scales for each few of them.

A block has 256 weights of one output, in groups of 32 (Q4_K) or 16 (Q6_K). A weight is

    Q4_K:  d * (scale * q) - dmin * minimum      q from 0 to 15, scale and minimum from 0 to 63, of a group
    Q6_K:  d * scale * (q - 32)                  q from 0 to 63, scale from -128 to 127, of a group

with `d` and `dmin` in float16, of the block. Source: ggml's `ggml-common.h` and `ggml-quants.c`. Knows bytes and
numbers; knows no file and no layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from decoder.weights.gguf_blocks import BlockFormat

BLOCK = 256
"""Weights of a block."""
GROUP: dict[BlockFormat, int] = {"Q4_K": 32, "Q6_K": 16}
"""Weights that share a scale."""
BYTES: dict[BlockFormat, int] = {"Q4_K": 144, "Q6_K": 210}
"""Of a block in the file."""
MIDDLE = 32
"""What is taken from the integers of Q6_K."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of a matrix [out, in].

    Attributes:
        format: Q4_K or Q6_K.
        integers: uint8 [out, in].
        scales: uint8 (Q4_K) or int8 (Q6_K) [out, in / group].
        minima: uint8 [out, in / 32] of Q4_K, None of Q6_K.
        d: float16 [out, in / 256].
        dmin: float16 [out, in / 256] of Q4_K, None of Q6_K.
    """

    format: BlockFormat
    integers: torch.Tensor
    scales: torch.Tensor
    minima: torch.Tensor | None
    d: torch.Tensor
    dmin: torch.Tensor | None

    def weight(self) -> torch.Tensor:
        """float32 [out, in], as ggml computes it."""
        out, columns = self.integers.shape
        values = self.integers.view(out, columns // BLOCK, -1, GROUP[self.format]).float()
        scales = self.scales.view(out, columns // BLOCK, -1).float() * self.d.float()[..., None]
        if self.minima is None or self.dmin is None:
            return values.sub_(MIDDLE).mul_(scales[..., None]).view(out, columns)
        least = self.minima.view(out, columns // BLOCK, -1).float() * self.dmin.float()[..., None]
        return values.mul_(scales[..., None]).sub_(least[..., None]).view(out, columns)

    def rows(self, numbers: torch.Tensor) -> Blocks:
        """The blocks of some outputs, int64 [n]."""
        minima, dmin = (None if part is None else part[numbers] for part in (self.minima, self.dmin))
        return Blocks(self.format, self.integers[numbers], self.scales[numbers], minima, self.d[numbers], dmin)


def read(data: torch.Tensor, format: BlockFormat) -> Blocks:
    """The blocks of a matrix as a GGUF file has them.

    Args:
        data: uint8 [out, bytes of a row].
        format: Q4_K or Q6_K.

    Raises:
        ValueError: rows are no whole number of blocks.
    """
    if data.shape[1] % BYTES[format]:
        raise ValueError(f"rows of {data.shape[1]} bytes are no whole {format} blocks of {BYTES[format]} bytes")
    blocks = data.view(len(data), -1, BYTES[format])
    return _q4(blocks) if format == "Q4_K" else _q6(blocks)


def _q4(blocks: torch.Tensor) -> Blocks:
    """uint8 [out, blocks, 144]: d, dmin, 12 bytes of scales and minima, and 128 of integers."""
    out = len(blocks)
    d, dmin = blocks[..., :4].contiguous().view(torch.float16).unbind(-1)
    first, second, third = torch.split(blocks[..., 4:16], 4, dim=-1)
    scales = torch.cat((first & 63, (third & 15) | ((first >> 6) << 4)), dim=-1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 6) << 4)), dim=-1)
    pairs = blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32)  # of each 32 bytes, lower halves come first
    integers = torch.stack((pairs & 15, pairs >> 4), dim=-2)
    return Blocks(
        "Q4_K", integers.reshape(out, -1), scales.reshape(out, -1), minima.reshape(out, -1), d.clone(), dmin.clone()
    )


def _q6(blocks: torch.Tensor) -> Blocks:
    """uint8 [out, blocks, 210]: lower four bits of the integers, upper two, 16 scales, and d."""
    out, shape = len(blocks), (*blocks.shape[:2], 2)
    lower, upper, scales, d = torch.split(blocks, [128, 64, 16, 2], dim=-1)
    low, high = lower.reshape(*shape, 64), upper.reshape(*shape, 1, 32)
    lows = torch.cat((low & 15, low >> 4), dim=-1).reshape(*shape, 4, 32)
    highs = torch.cat([(high >> shift) & 3 for shift in (0, 2, 4, 6)], dim=-2)
    integers = lows | (highs << 4)
    d = d.contiguous().view(torch.float16)[..., 0].clone()
    return Blocks(
        "Q6_K", integers.reshape(out, -1), scales.contiguous().view(torch.int8).reshape(out, -1), None, d, None
    )
