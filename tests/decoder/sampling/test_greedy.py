"""The greedy choice is torch's argmax, whatever the logits."""

from __future__ import annotations

import pytest
import torch

from decoder.sampling.greedy import greedy


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("vocab_size", [1, 64, 97, 320, 1280, 49152])
def test_it_is_argmax(dtype: torch.dtype, vocab_size: int) -> None:
    logits = torch.randn(7, vocab_size, generator=torch.Generator().manual_seed(vocab_size)).to(dtype)
    assert torch.equal(greedy(logits), logits.argmax(-1))


def test_the_first_of_equal_logits_is_chosen() -> None:
    logits = torch.zeros(4, 640, dtype=torch.bfloat16)
    logits[1, 639] = logits[1, 130] = logits[1, 131] = 3.0
    logits[2] = -torch.inf
    logits[3, [127, 128]] = torch.inf
    assert greedy(logits).tolist() == [0, 130, 0, 127]


def test_what_float32_cannot_tell_apart_is_told_apart() -> None:
    logits = torch.full((2, 256), 3.0, dtype=torch.float64)
    logits[0, 200] += 1e-14
    logits[1, [7, 255]] = torch.tensor([1e300, 2e300], dtype=torch.float64)
    assert greedy(logits).tolist() == [200, 255]


def test_what_is_no_number_is_found_as_argmax_finds_it() -> None:
    logits = torch.zeros(2, 256, dtype=torch.bfloat16)
    logits[:, 9] = 5.0
    logits[1, [100, 200]] = torch.nan
    assert greedy(logits).tolist() == logits.argmax(-1).tolist() == [9, 100]


def test_rows_of_a_wider_matrix_and_no_rows() -> None:
    wide = torch.randn(3, 700, generator=torch.Generator().manual_seed(3)).bfloat16()
    assert torch.equal(greedy(wide[:, :640]), wide[:, :640].argmax(-1))
    assert greedy(wide[:0, :640]).shape == (0,)
