"""Prepared calls of machine code."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from decoder.model.layers import addition
from decoder.model.linear import rounding
from decoder.model.linear.calls import Calls

here = pytest.mark.skipif(not rounding.suits(), reason="the processor has no AVX2")


def numbers(count: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed)).bfloat16()


@here
@pytest.mark.parametrize(("count", "columns"), [(1, 16), (3, 48), (70, 1536)])
def test_sums_have_torchs_bits(count: int, columns: int) -> None:
    one, other = numbers(count, columns, 1), numbers(count, columns, 2) * 1e3
    one[0, :3] = torch.tensor([float("inf"), float("nan"), -0.0])
    other[0, :3] = torch.tensor([1.0, 1.0, -0.0])
    output = torch.empty_like(one)
    addition.call(one, other, output).run()
    assert torch.equal(output.view(torch.int16)[:, 2:], (one + other).view(torch.int16)[:, 2:])
    assert output[0, 0].isposinf()
    assert output[0, 1].isnan()


@here
@pytest.mark.parametrize("count", [1, 64])
def test_calls_run_in_order_each_time(count: int) -> None:
    """On one thread, or on all: a counter that is not set back would leave rows as they are."""
    columns = 1536
    one, between, last = (torch.zeros(count, columns, dtype=torch.bfloat16) for _ in range(3))
    calls = Calls([addition.call(one, one, between), addition.call(between, one, last)])
    for value in (1.0, 5.0):
        one.fill_(value)
        calls.run()
        assert (between == 2 * value).all()
        assert (last == 3 * value).all()


@here
def test_an_address_is_set_anew() -> None:
    one, other, stale, output = (numbers(2, 32, seed) for seed in range(4))
    calls = Calls([addition.call(stale, other, stale), addition.call(other, stale, output)])
    places = calls.places(stale)
    assert places.tolist() == [0, 4, 7]
    assert calls.places(torch.empty(3)).tolist() == []
    rows = torch.stack((stale, one))
    assert calls.places(rows[1]).tolist() == []
    calls.fields[places] = rows[1].data_ptr()
    kept = stale.clone()
    calls.run()
    assert torch.equal(stale, kept)
    assert torch.equal(rows[1], one + other)
    assert torch.equal(output, other + rows[1])


@here
def test_calls_keep_their_tensors() -> None:
    made = []
    for seed in range(50):
        output = torch.empty(1, 64, dtype=torch.bfloat16)
        made.append((Calls([addition.call(numbers(1, 64, seed), numbers(1, 64, -1 - seed), output)]), output))
    for seed, (calls, output) in enumerate(made):
        calls.run()
        assert torch.equal(output, numbers(1, 64, seed) + numbers(1, 64, -1 - seed))
    assert np.unique([calls.fields[0] for calls, _ in made]).size == 50
