"""Machine code of layers: as near as their number format lets it, and the same bits in any company."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from decoder.model.fingerprint import weights_fingerprint
from decoder.model.linear import packed_linear, tiled_linear
from decoder.model.linear.packed_linear import PackedLinear, kept_bytes, pack
from decoder.model.linear.quantise import rows_of
from decoder.model.linear.tiled_linear import TiledLinear
from decoder.model.target import TargetModel
from tests.support.tiny_models import tiny_model

here = pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(
            one,
            marks=pytest.mark.skipif(not tiled_linear.suits(one), reason="the processor has no AVX-512 for it, or AMX"),
        )
        for one in (torch.bfloat16, torch.float32)
    ],
)


def layer(dtype: torch.dtype, out: int, columns: int, bias: bool = True) -> torch.nn.Linear:
    source = torch.Generator().manual_seed(out + columns)
    made = torch.nn.Linear(columns, out, bias, dtype=dtype).requires_grad_(False)
    made.weight.copy_(torch.randn(out, columns, generator=source) / columns**0.5)
    if bias:
        made.bias.copy_(torch.randn(out, generator=source))
    return made


@here
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("out", "columns"), [(1, 2), (61, 32), (64, 48), (7, 22), (300, 512), (130, 704), (512, 1536), (65, 2070)]
)
def test_products_are_as_near_as_their_format_lets_them(dtype: torch.dtype, out: int, columns: int, bias: bool) -> None:
    made = layer(dtype, out, columns, bias)
    weight = made.weight.clone()
    rows = torch.randn(130, columns, generator=torch.Generator().manual_seed(3)).to(dtype)
    exact = F.linear(rows.double(), weight.double(), made.bias.double() if bias else None)
    tiled_linear.tile(made)
    assert torch.equal(made.weight, weight)
    for count in (1, 2, 5, 6, 7, 13, 130):
        found = made(rows[None, :count])
        assert found.shape == (1, count, out)
        away = (found[0].double() - exact[:count]).norm()
        rounding = (exact[:count].to(dtype).double() - exact[:count]).norm()
        assert away < 1.01 * rounding + 1e-6 * exact[:count].norm()


@here
def test_a_rows_product_has_the_same_bits_in_any_company(dtype: torch.dtype) -> None:
    made = layer(dtype, 130, 2100)  # several blocks of columns
    tiled_linear.tile(made)
    inputs = torch.randn(40, 2100, generator=torch.Generator().manual_seed(3)).to(dtype)
    whole = made(inputs)
    for numbers in ([0], [5], [39], [5, 4], [7, 7, 7], [*range(20, 40)], [*range(39, -1, -1)]):
        assert torch.equal(made(inputs[numbers]), whole[numbers])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(made(inputs), whole)
    finally:
        torch.set_num_threads(threads)


@here
def test_it_is_used_where_it_is_for_the_processor(dtype: torch.dtype) -> None:
    """Else a fault in the code would go unnoticed: torch's kernels would multiply."""
    assert tiled_linear.available(dtype)


@here
def test_what_is_not_finite_stays_so(dtype: torch.dtype) -> None:
    made = layer(dtype, 8, 32)
    tiled_linear.tile(made)
    inputs = torch.ones(3, 32).to(dtype)
    alone = made(inputs[:1])
    inputs[1, 3], inputs[2, 4] = float("nan"), float("inf")
    product = made(inputs)
    assert torch.equal(product[:1], alone)
    assert not product[1:].isfinite().any()


@here
def test_gradients_pass_through_to_the_input(dtype: torch.dtype) -> None:
    made = layer(dtype, 8, 32)
    tiled_linear.tile(made)
    inputs = torch.randn(3, 32, generator=torch.Generator().manual_seed(5)).to(dtype).requires_grad_()
    product = made(inputs)
    assert torch.equal(product, made(inputs.detach()))
    product.sum().backward()
    assert inputs.grad is not None
    torch.testing.assert_close(inputs.grad, made.weight.sum(0).expand(3, -1), rtol=0.02, atol=0.02)


@here
def test_some_rows_of_the_weight_are_read_alone(dtype: torch.dtype) -> None:
    made, numbers = layer(dtype, 130, 34), torch.tensor([129, 0, 64, 64, 63])
    weight = made.weight.clone()
    tiled_linear.tile(made)
    assert torch.equal(rows_of(made, numbers), weight[numbers])


@here
def test_in_another_format_or_place_it_is_a_stock_layer_again(dtype: torch.dtype) -> None:
    made = layer(dtype, 61, 32)
    weight = made.weight.clone()
    tiled_linear.tile(made)
    assert type(made.to(dtype)) is TiledLinear
    with pytest.raises(RuntimeError):
        made(torch.ones(2, 32, dtype=dtype, device="meta"))
    made.to(torch.float64)
    assert type(made) is torch.nn.Linear
    assert torch.equal(made.weight, weight.double())
    assert made(torch.ones(2, 32, dtype=torch.float64)).dtype is torch.float64


@here
def test_a_trial_draws_no_random_numbers(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    assert tiled_linear.available.__wrapped__(dtype)
    assert torch.equal(torch.rand(4), wanted)


@here
def test_a_model_keeps_its_weights_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "free_bytes", lambda: 1 << 20)
    model = tiny_model("qwen2").to(dtype)
    embeddings = model.model.embed_tokens.weight.clone()
    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    mark = weights_fingerprint(model)
    target = TargetModel(model)
    assert target.packed == sum(isinstance(module, TiledLinear) for module in model.modules()) > 10
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
    assert weights_fingerprint(model) == mark
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(weight, state[name]) for name, weight in model.state_dict().items())
    assert torch.equal(model.model.embed_tokens.weight, embeddings)
    left = sum(weight.nbytes for weight in {*model.parameters()})
    buffers = sum(buffer.nbytes for buffer in {*model.buffers()})
    assert target.nbytes == left + buffers + kept_bytes(model)


@here
def test_without_memory_layers_stay_stock(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "free_bytes", lambda: 1000)
    model = tiny_model().to(dtype)
    assert pack(model) == 0
    assert not any(isinstance(module, TiledLinear) for module in model.modules())


def test_float64_is_left_alone() -> None:
    model = tiny_model().to(torch.float64)
    pack(model)
    assert not any(isinstance(module, TiledLinear) for module in model.modules())


@pytest.mark.parametrize(
    ("dtype", "flags"),
    [
        (torch.float32, {"avx2"}),
        (torch.bfloat16, tiled_linear.FLAGS),
        (torch.bfloat16, {*tiled_linear.FLAGS, tiled_linear.BFLOAT16_FLAG, tiled_linear.MATRIX_FLAG}),
        (torch.float16, {*tiled_linear.FLAGS, tiled_linear.BFLOAT16_FLAG}),
    ],
)
def test_other_processors_go_without(dtype: torch.dtype, flags: set[str], tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : fpu {' '.join(flags)}\n")
    assert not tiled_linear.available.__wrapped__(dtype, tmp_path / "cpuinfo")
    assert not tiled_linear.available.__wrapped__(dtype, tmp_path / "missing")


@here
@pytest.mark.parametrize("missing", ["llvmlite", "openmp", "right"])
def test_where_something_is_missing_torchs_kernels_multiply(
    dtype: torch.dtype, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled_linear, "code", tiled_linear.code.__wrapped__)
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        for name in ("product_code", "machine_code"):
            monkeypatch.delitem(sys.modules, f"decoder.model.linear.{name}", raising=False)
    elif missing == "openmp":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    else:
        monkeypatch.setattr(torch, "equal", lambda *tensors: False)
    assert not tiled_linear.available.__wrapped__(dtype)
