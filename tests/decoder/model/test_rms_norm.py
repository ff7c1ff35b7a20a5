"""Root mean square norms in machine code."""

from __future__ import annotations

import copy
import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

from decoder.model.layers import rms_norm
from decoder.model.linear import rounding

here = pytest.mark.skipif(not rounding.suits(), reason="the processor has no AVX2")


def rows_of_all_magnitudes(count: int, columns: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(columns)
    rows = torch.randn(count, columns, generator=source) * torch.logspace(-4, 4, count)[:, None]
    rows[2:3] = 0
    return rows.bfloat16()


def norm(columns: int) -> Any:
    made = LlamaRMSNorm(columns, 1e-6)
    made.weight.data = torch.randn(columns, generator=torch.Generator().manual_seed(1))
    return made.to(torch.bfloat16)


def model(*norms: Any, device: str = "cpu") -> Any:
    return SimpleNamespace(device=torch.device(device), modules=lambda: norms)


@here
@pytest.mark.parametrize("columns", [16, 128, 576, 1536])
def test_the_code_gives_what_the_stock_layer_does(columns: int) -> None:
    stock, sped_up = norm(columns), norm(columns)
    assert rms_norm.speed_up(model(sped_up)) == 1
    for count in (1, 2, 7, 700):
        rows = rows_of_all_magnitudes(count, columns)
        wanted, found = stock(rows), sped_up(rows)
        assert torch.equal(wanted, rms_norm.reference(rows, stock.weight, 1e-6))
        assert (found.shape, found.dtype) == (rows.shape, rows.dtype)
        assert torch.allclose(found, wanted, rtol=2**-7, atol=0.0), "the last bit may be another"
        assert (found != wanted).float().mean() < 1e-3


@here
def test_a_row_gives_the_same_bits_beside_any_others() -> None:
    rows = rows_of_all_magnitudes(65, 576)
    weight = norm(576).weight
    whole = rms_norm.normalised(rows, weight, 1e-6)
    for first in range(0, 65, 13):
        part = rms_norm.normalised(rows[first : first + 3], weight, 1e-6)
        assert torch.equal(part, whole[first : first + 3])
    apart = torch.stack((rows, rows), dim=-1)[..., 0]
    assert not apart.is_contiguous()
    assert torch.equal(rms_norm.normalised(apart, weight, 1e-6), whole)


@here
def test_what_is_no_number_stays_none() -> None:
    rows = torch.ones(3, 64, dtype=torch.bfloat16)
    rows[0, 3], rows[1, 5] = float("inf"), float("nan")
    weight = torch.ones(64, dtype=torch.bfloat16)
    found, wanted = (form(rows, weight, 1e-6) for form in (rms_norm.normalised, rms_norm.reference))
    assert torch.equal(found.isnan(), wanted.isnan())
    assert torch.equal(found[2], wanted[2])


@here
def test_norms_that_round_otherwise_stay_stock() -> None:
    unlike = Olmo2RMSNorm(64, 1e-6).to(torch.bfloat16)
    unlike.weight.data = norm(64).weight
    assert rms_norm.speed_up(model(unlike, norm(64))) == 1
    assert "forward" not in unlike.__dict__


@here
def test_a_copy_has_its_own_weights() -> None:
    sped_up = norm(64)
    assert rms_norm.speed_up(model(sped_up)) == 1
    assert rms_norm.speed_up(model(sped_up)) == 0, "once"
    copied = copy.deepcopy(sped_up)
    copied.weight.data.zero_()
    assert not copied(rows_of_all_magnitudes(5, 64)).any()
    assert sped_up(rows_of_all_magnitudes(5, 64)).any()


@here
def test_others_stay_as_they_are() -> None:
    exact, odd, unlike = norm(64).float(), norm(40), torch.nn.RMSNorm(64).bfloat16()
    assert rms_norm.speed_up(model(exact, odd, unlike, torch.nn.LayerNorm(64))) == 0
    assert rms_norm.speed_up(model(norm(64), device="cuda")) == 0


@here
def test_a_gradient_and_another_format_take_the_stock_layer() -> None:
    stock, sped_up = norm(64), norm(64)
    rms_norm.speed_up(model(sped_up))
    gradients = []
    for layer in (stock, sped_up):
        rows = rows_of_all_magnitudes(4, 64).requires_grad_()
        layer(rows).sum().backward()
        gradients.append(rows.grad)
    assert torch.equal(*gradients)
    sped_up.float()
    exact = torch.randn(3, 64)
    assert torch.equal(sped_up(exact), stock.float()(exact))


@here
def test_it_is_used_where_it_is_for_the_processor() -> None:
    """Else a fault in the code would go unnoticed: torch would compute them, slowly."""
    assert rms_norm.available()


@here
def test_it_needs_no_more_than_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM divides registers that a processor lacks: the code for one of 2013 gives the same bits here."""
    import llvmlite.binding as llvm

    class Features(dict[str, bool]):
        def flatten(self) -> str:
            return "+avx2,+fma,+f16c,+bmi2"

    rows, weight = rows_of_all_magnitudes(9, 576), norm(576).weight
    wanted = rms_norm.normalised(rows, weight, 1e-6)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "haswell")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: Features(avx2=True))
    code = rms_norm.code.__wrapped__()
    monkeypatch.setattr(rms_norm, "code", lambda: code)
    assert torch.equal(rms_norm.normalised(rows, weight, 1e-6), wanted)


@here
@pytest.mark.parametrize("missing", ["llvmlite", "openmp", "right"])
def test_where_something_is_missing_the_layers_are_stock(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, "decoder.model.layers.rms_norm_code", raising=False)
        monkeypatch.delitem(sys.modules, "decoder.model.linear.machine_code", raising=False)
    elif missing == "openmp":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    elif missing == "right":
        monkeypatch.setattr(torch, "allclose", lambda *tensors, **bounds: False)
    monkeypatch.setattr(rms_norm, "code", rms_norm.code.__wrapped__)
    monkeypatch.setattr(rms_norm, "available", rms_norm.available.__wrapped__)
    assert rms_norm.speed_up(model(norm(64))) == 0
