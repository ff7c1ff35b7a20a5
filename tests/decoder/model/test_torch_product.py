"""Products of an int8 layer by torch's kernels, a piece at a time."""

from __future__ import annotations

import pytest
import torch

from decoder.model.linear.int8 import torch_product
from decoder.model.linear.int8.torch_product import TorchProduct


def test_rows_and_outputs_are_multiplied_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = torch.Generator().manual_seed(5)
    integers = torch.randint(-127, 128, (50, 32), dtype=torch.int8, generator=source)
    scale, bias, inputs = (torch.randn(size, generator=source) for size in (50, 50, (6, 32)))
    whole, pieces = torch.empty(2, 6, 50).unbind()
    TorchProduct(integers, scale, bias)(inputs, whole)
    monkeypatch.setattr(torch_product, "PIECE_ROWS", 4)
    monkeypatch.setattr(torch_product, "PIECE_OUTPUTS", 7)
    product = TorchProduct(integers, scale, bias)
    assert len(product.products) == 8
    product(inputs, pieces)
    assert torch.equal(pieces, whole)
    assert torch.equal(product.integers(), integers)
