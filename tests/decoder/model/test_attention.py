"""Attention over a pass: two batched products give what the stock kernel gives."""

from __future__ import annotations

import pytest
import torch

from decoder.model import attention

KV_HEADS, GROUPS, DIM = 2, 3, 32


def pass_of(rows: int, kept: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries [1, heads, rows, d], keys and values of a longer buffer, and a random tree's mask [rows, kept + rows]."""
    draw = torch.Generator().manual_seed(1000 * rows + kept)
    query = torch.randn(1, KV_HEADS * GROUPS, rows, DIM, generator=draw)
    buffer = torch.randn(2, 1, KV_HEADS, kept + rows + 9, DIM, generator=draw)
    keys, values = buffer[:, :, :, : kept + rows]
    own = torch.rand(rows, rows, generator=draw).gt(0.5).tril() | torch.eye(rows, dtype=torch.bool)
    mask = torch.cat([torch.ones(rows, kept, dtype=torch.bool), own], dim=1)
    return query.to(dtype), keys.to(dtype), values.to(dtype), mask


@pytest.mark.parametrize(("rows", "kept"), [(1, 5), (2, 1), (7, 40), (64, 300), (attention.MAX_ROWS, 17)])
def test_products_are_the_stock_kernel_up_to_rounding(rows: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys, values, mask = pass_of(rows, kept, torch.bfloat16)
    exact = attention._attend(query.double(), keys.double(), values.double(), mask, 0.3)
    monkeypatch.setattr(attention, "_BF16_PRODUCTS", False)
    stock = attention._attend(query, keys, values, mask, 0.3)
    monkeypatch.setattr(attention, "_BF16_PRODUCTS", True)
    before = torch.backends.mkldnn.matmul.fp32_precision
    product, during = torch.bmm, []

    def seen(*factors: torch.Tensor) -> torch.Tensor:
        during.append(torch.backends.mkldnn.matmul.fp32_precision)
        return product(*factors)

    monkeypatch.setattr(torch, "bmm", seen)
    made = attention._attend(query, keys, values, mask, 0.3)
    assert during == [before, before], "an embedder's thread multiplies float32 meanwhile"
    assert made.dtype == stock.dtype
    assert made.shape == stock.shape
    rounding = 2**-8 * values.abs().max()  # half a bf16 step in the probabilities, half a one in the sum
    assert (made.double() - exact).abs().max() <= rounding
    assert (stock.double() - exact).abs().max() <= rounding


def test_products_are_for_bf16_and_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_BF16_PRODUCTS", True)
    query, keys, _, _ = pass_of(8, 20, torch.bfloat16)
    assert attention._products_are_faster(query, keys)
    assert not attention._products_are_faster(query.float(), keys.float())
    wide, long, _, _ = pass_of(attention.MAX_ROWS + 1, 20, torch.bfloat16)
    assert not attention._products_are_faster(wide, long)
    monkeypatch.setattr(attention, "_MAX_SCORES", 6 * 8 * 28 - 1)
    assert not attention._products_are_faster(query, keys), "scores that memory has no room for"
    monkeypatch.setattr(attention, "_BF16_PRODUCTS", False)
    assert not attention._products_are_faster(query, keys)
