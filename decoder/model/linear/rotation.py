"""The rotation of a row's columns before it is rounded to integers.

Blocks of columns are multiplied by a Hadamard matrix: sums and differences of all of them. So a number far above the
others, of which activations have some, is spread over its block, and steps that hold the largest are fine enough for
the rest. The matrix is its own inverse; weights are rotated alike, and products stay what they are. After QuaRot
(Ashkboos et al. 2024), which rotates whole rows, where blocks were better here (docs/log.md).
"""

from __future__ import annotations

import torch

BLOCKS = (256, 64, 16)
"""Columns of a block; the first that divides a row is taken. Their square roots are powers of two, so exact."""


def block_of(columns: int) -> int:
    """Columns of a block in rows of so many; 1, no rotation, if no block divides them."""
    return next((block for block in BLOCKS if columns % block == 0), 1)


def rotated(rows: torch.Tensor) -> torch.Tensor:
    """Rows [n, in], of any floating dtype -> float32 [n, in]; twice gives the rows again, but for rounding."""
    turned, block, apart = rows.float(), block_of(rows.shape[1]), 1
    while apart < block:
        first, second = turned.reshape(len(rows), rows.shape[1] // (2 * apart), 2, apart).unbind(2)
        turned = torch.stack((first + second, first - second), 2)
        apart *= 2
    return turned.reshape(rows.shape).mul(block**-0.5)
