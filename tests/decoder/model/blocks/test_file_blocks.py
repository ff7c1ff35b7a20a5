"""Blocks of GGUF files are read as the `gguf` package reads them, and keep their numbers in the code's order."""

from __future__ import annotations

import gguf
import pytest
import torch

from decoder.model.linear.blocks.block_matrix import BlockMatrix, record_bytes
from decoder.model.linear.blocks.file_blocks import BLOCK, BYTES, read
from decoder.weights.gguf_blocks import BlockFormat
from tests.support.models.file_bytes import file_bytes, random_bytes

KINDS: list[BlockFormat] = ["Q4_K", "Q6_K"]
pytestmark = pytest.mark.parametrize("kind", KINDS)


def theirs(data: torch.Tensor, kind: BlockFormat) -> torch.Tensor:
    """float32 [out, in] as the `gguf` package dequantizes."""
    return torch.from_numpy(gguf.dequantize(data.numpy(), gguf.GGMLQuantizationType[kind]))


def test_every_weight_is_the_one_that_gguf_reads(kind: BlockFormat) -> None:
    data = random_bytes(70, 3, kind)
    assert torch.equal(read(data, kind).weight(), theirs(data, kind))


def test_rounded_weights_are_near_and_the_tests_bytes_are_right(kind: BlockFormat) -> None:
    weight = torch.randn(9, 2 * BLOCK, generator=torch.Generator().manual_seed(1))
    data = file_bytes(weight, kind)
    assert torch.equal(read(data, kind).weight(), theirs(data, kind))
    assert (theirs(data, kind) - weight).abs().max() < (0.4 if kind == "Q4_K" else 0.1)


@pytest.mark.parametrize("out", [1, 64, 70, 4200])
def test_records_have_the_same_weights(kind: BlockFormat, out: int) -> None:
    """Also of more outputs than are put in order at once."""
    data = random_bytes(out, 2, kind)
    matrix = BlockMatrix.from_file(data, kind)
    assert matrix.records.shape == (-(-out // 64), 2, record_bytes(kind))
    assert torch.equal(matrix.weight(), theirs(data, kind))


def test_some_rows_are_read_alone(kind: BlockFormat) -> None:
    data = random_bytes(4200, 1, kind)
    numbers = torch.tensor([4199, 7, 0, 7, 4096, 64, 2000])
    found = BlockMatrix.from_file(data, kind).rows(numbers)
    assert torch.equal(found.weight(), theirs(data, kind)[numbers])


def test_rows_that_are_no_whole_blocks_are_refused(kind: BlockFormat) -> None:
    with pytest.raises(ValueError, match=rf"rows of 200 bytes are no whole {kind} blocks of {BYTES[kind]} bytes"):
        read(torch.zeros(2, 200, dtype=torch.uint8), kind)
