"""Packed weights: the same products, in our passes of a few rows only."""

from __future__ import annotations

import pytest
import torch

from decoder.drafts.tree import DraftTree, TokenSource
from decoder.model.linear import packed_linear, tiled_linear
from decoder.model.linear.packed_linear import MAX_ROWS, PackedLinear, pack, packed_passes
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from tests.support.tiny_models import tiny_model


def small_model() -> object:
    return tiny_model().to(torch.float32)


@pytest.fixture(autouse=True)
def torchs_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors for which there is no code of our own."""
    monkeypatch.setattr(tiled_linear, "available", lambda dtype: False)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "free_bytes", lambda: 1 << 40)


@pytest.mark.usefixtures("roomy")
def test_packed_products_are_the_stock_ones_up_to_rounding() -> None:
    model = small_model()
    layer = next(module for module in model.modules() if type(module) is torch.nn.Linear)  # type: ignore[attr-defined]
    inputs = torch.randn(1, MAX_ROWS + 1, layer.in_features)
    with torch.inference_mode():
        stock = layer(inputs)
        assert pack(model) > 10
        for rows in (1, 2, 7, MAX_ROWS, MAX_ROWS + 1):
            given = inputs[:, :rows]
            outside = layer(given)
            with packed_passes():
                inside = layer(given)
            torch.testing.assert_close(inside, stock[:, :rows], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(outside, stock[:, :rows], rtol=1e-4, atol=1e-5)
            assert inside.shape == outside.shape
    assert not PackedLinear.rows


@pytest.mark.usefixtures("roomy")
@pytest.mark.parametrize(("threads", "wide"), [(1, False), (2, False), (1, True)])
def test_one_row_is_computed_by_the_stock_kernel_on_one_thread_without_avx512(
    threads: int, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(packed_linear, "_AVX512", wide)
    target = TargetModel(small_model())
    taken: list[int] = []
    product = torch.ops.mkldnn._linear_pointwise

    def note(inputs: torch.Tensor, *rest: object) -> torch.Tensor:
        taken.append(inputs.shape[-2])
        made: torch.Tensor = product(inputs, *rest)
        return made

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", note)
    cache = target.new_cache(64)
    one: set[int] = set() if threads == 1 and not wide else {1}
    target.prefill([3, 4, 5], cache)
    assert set(taken) == {3} | one, "the head reads one row"
    taken.clear()
    target.forward_tree([TreePass(cache, 6, DraftTree())])
    assert set(taken) == one
    taken.clear()
    target.forward_tree([TreePass(cache, 6, DraftTree.chain([7, 8], [TokenSource("test")] * 2))])
    assert set(taken) == {3}


def test_float64_and_a_full_memory_keep_the_stock_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pack(tiny_model()) == 0
    model = small_model()
    monkeypatch.setattr(packed_linear, "free_bytes", lambda: 1000)
    assert pack(model) == 0
    assert not any(isinstance(module, PackedLinear) for module in model.modules())  # type: ignore[attr-defined]


@pytest.mark.usefixtures("roomy")
def test_where_the_dtype_has_no_packed_kernel_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def refuse(weight: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise RuntimeError("no instructions for it")
        return weight

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse)
    model = small_model()
    assert pack(model) == 0
    assert calls == 4
    assert not any(isinstance(module, PackedLinear) for module in model.modules())  # type: ignore[attr-defined]
