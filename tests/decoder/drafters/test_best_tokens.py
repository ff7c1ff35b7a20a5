"""The best tokens of a row against a sort of the whole row."""

from __future__ import annotations

import pytest
import torch

from decoder.drafters.best_tokens import best_tokens


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
