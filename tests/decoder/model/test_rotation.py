"""The rotation is a Hadamard matrix in blocks, and its own inverse."""

from __future__ import annotations

import pytest
import torch

from decoder.model.linear.rotation import block_of, rotated


def hadamard(order: int) -> torch.Tensor:
    """Sylvester's, whose entry is -1 where the numbers of row and column have an odd number of ones in common."""
    numbers = torch.arange(order)
    ones = sum(((numbers[:, None] & numbers) >> bit) & 1 for bit in range(8))
    return (1 - 2 * (ones % 2)).double() / order**0.5


@pytest.mark.parametrize(("columns", "block"), [(16, 16), (48, 16), (64, 64), (576, 64), (1536, 256), (24, 1), (7, 1)])
def test_blocks_are_multiplied_by_a_hadamard_matrix(columns: int, block: int) -> None:
    assert block_of(columns) == block
    rows = torch.randn(5, columns, generator=torch.Generator().manual_seed(columns))
    wanted = (rows.double().view(5, -1, block) @ hadamard(block)).view(5, columns)
    torch.testing.assert_close(rotated(rows).double(), wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rotated(rotated(rows)), rows, atol=1e-5, rtol=1e-5)
    assert rotated(rows.bfloat16()).dtype is torch.float32


def test_a_number_far_above_the_others_is_spread_over_its_block() -> None:
    rows = torch.ones(1, 512)
    rows[0, 300] = 1000.0
    turned = rotated(rows).abs()
    assert turned[0, :256].max() <= 16
    assert turned[0, 256:].max() < 80, "1000 over the root of 256, and what the others add to one number"
