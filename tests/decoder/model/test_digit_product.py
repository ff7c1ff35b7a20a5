"""Digits of rows, and products of a layer a piece at a time."""

from __future__ import annotations

import pytest
import torch

from decoder.model.linear import digit_product
from decoder.model.linear.digit_product import RADIX, DigitProduct, digits_of


def test_digits_hold_a_row_up_to_half_a_step() -> None:
    source = torch.Generator().manual_seed(7)
    rows = torch.randn(50, 300, generator=source) * torch.logspace(-20, 20, 50)[:, None]
    rows[7] = 0
    rows[8, 1:] = 0
    rows[9] = rows[9, 0]
    digits, step = digits_of(rows)
    assert digits.abs().max() <= 64
    assert torch.equal(digits, digits.round())
    held = (digits[:50].double() * RADIX + digits[50:].double()) * step.double()
    assert ((held - rows.double()).abs() <= 0.5001 * step.double()).all()
    assert not digits[[7, 57]].any()
    assert torch.equal(held[8].float(), rows[8])


def test_rows_and_outputs_are_multiplied_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = torch.Generator().manual_seed(5)
    integers = torch.randint(-127, 128, (50, 32), dtype=torch.int8, generator=source)
    scale, bias, inputs = (torch.randn(size, generator=source) for size in (50, 50, (6, 32)))
    whole, pieces = torch.empty(2, 6, 50).unbind()
    DigitProduct(integers, scale, bias)(inputs, whole)
    monkeypatch.setattr(digit_product, "PIECE_ROWS", 4)
    monkeypatch.setattr(digit_product, "PIECE_OUTPUTS", 7)
    product = DigitProduct(integers, scale, bias)
    assert len(product.products) == 8
    product(inputs, pieces)
    assert torch.equal(pieces, whole)
    assert torch.equal(product.integers(), integers)
