"""The best tokens of a row against a sort of the whole row."""

from __future__ import annotations

import pytest
import torch

from decoder.drafters.best_tokens import best_of_rows, best_tokens


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocab", [1, 40, 129, 5000, 49_152])
@pytest.mark.parametrize("decimals", [0, 1, 6])
def test_they_are_the_first_of_a_stable_sort(dtype: torch.dtype, vocab: int, decimals: int) -> None:
    """Also where many are equal, forbidden or at the end, which no whole block holds."""
    random = torch.Generator().manual_seed(vocab + decimals)
    for count in (1, 2, 20, 49, 200):
        logits = (torch.randn(vocab, generator=random) * 4).round(decimals=decimals)
        logits[torch.rand(vocab, generator=random) < 0.3] = -torch.inf
        logits[-1] = 30.0
        logits = logits.to(dtype)
        expected = sorted(range(vocab), key=lambda token: -float(logits[token]))[:count]
        assert best_tokens(logits, count) == expected


def test_all_forbidden_and_all_equal_come_by_their_ids() -> None:
    for value in (-torch.inf, 0.0):
        assert best_tokens(torch.full((5000,), value), 30) == list(range(30))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocab", [1, 40, 1024, 1153, 5000])
def test_those_of_several_rows_are_those_of_each(dtype: torch.dtype, vocab: int) -> None:
    """Equal logits may come in another order, so their values are compared."""
    random = torch.Generator().manual_seed(vocab)
    logits = (torch.randn(37, vocab, generator=random) * 4).to(dtype)  # more than are read at once
    logits[1, -1], logits[2, : vocab // 2], logits[3] = 30.0, -torch.inf, 1.0
    tokens, values = best_of_rows(logits, 8)
    expected = logits.sort(descending=True, dim=1).values[:, :8]
    assert torch.equal(values.to(dtype), expected)
    assert torch.equal(logits.gather(1, tokens), expected)
    assert all(len(set(row)) == len(row) for row in tokens.tolist())
