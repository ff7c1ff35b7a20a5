"""Gates of MLPs in machine code."""

from __future__ import annotations

import copy
import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, Phi3Config
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.phi3.modeling_phi3 import Phi3MLP

from decoder.model.layers import gated_mlp
from decoder.model.paths import path_attention

here = pytest.mark.skipif(not path_attention.suits(), reason="the processor has no AVX2")


def mlp(columns: int = 96, activation: str = "silu") -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = LlamaMLP(LlamaConfig(hidden_size=64, intermediate_size=columns, hidden_act=activation))
    return made.bfloat16().requires_grad_(False)


class Held(LlamaMLP):  # type: ignore[misc]
    """Holds its numbers below a bound, which shows with large ones alone."""

    def __init__(self) -> None:
        super().__init__(LlamaConfig(hidden_size=64, intermediate_size=96))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = (self.gate_proj(x).clamp(max=7.0), self.up_proj(x).clamp(-7.0, 7.0))
        output: torch.Tensor = self.down_proj(self.act_fn(held[0]) * held[1])
        return output


def model(*mlps: Any, device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> Any:
    return SimpleNamespace(device=torch.device(device), dtype=dtype, modules=lambda: mlps)


def halves(count: int, columns: int, scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(columns)
    gate, up = (scale * torch.randn(2, count, columns, generator=source)).bfloat16().unbind()
    return gate, up


@here
@pytest.mark.parametrize(("count", "columns"), [(1, 16), (1, 8960), (7, 96), (700, 176)])
def test_the_code_gives_what_the_stock_operations_do(count: int, columns: int) -> None:
    gate, up = halves(count, columns)
    found, wanted = gated_mlp.gated(gate, up), gated_mlp.reference(gate, up)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert torch.allclose(found, wanted, rtol=2**-6, atol=0.0), "the last bits may be others"
    assert (found != wanted).float().mean() < 1e-2


@here
def test_all_numbers_of_its_format() -> None:
    """Each of the 65,536, also those that are none."""
    gate = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.bfloat16).view(64, 1024)
    found, wanted = (form(gate, torch.ones_like(gate)) for form in (gated_mlp.gated, gated_mlp.reference))
    assert torch.equal(found.isnan(), wanted.isnan())
    normal = ~wanted.isnan() & (wanted.abs() > 1e-36)
    assert torch.allclose(found[normal].double(), wanted[normal].double(), rtol=2**-7, atol=0.0)
    assert (found[~normal & ~wanted.isnan()].abs() <= 1e-35).all()


@here
def test_a_row_gives_the_same_bits_beside_any_others() -> None:
    gate, up = halves(65, 176)
    whole = gated_mlp.gated(gate, up)
    for first in range(0, 65, 13):
        assert torch.equal(gated_mlp.gated(gate[first : first + 3], up[first : first + 3]), whole[first : first + 3])
    joint = torch.cat((gate, up), 1)  # as a joint product hands them out
    assert torch.equal(gated_mlp.gated(*joint[None].chunk(2, -1))[0], whole)
    assert torch.equal(gated_mlp.gated(gate.T.contiguous().T, up), whole)
    batches = torch.stack((joint, joint, joint))[::2]
    assert torch.equal(gated_mlp.gated(*batches.chunk(2, -1))[1], whole)


@here
def test_only_what_computes_alike_is_sped_up() -> None:
    plain, other, odd = mlp(), mlp(activation="gelu"), mlp(columns=40)
    assert gated_mlp.speed_up(model(plain)) == 1
    assert gated_mlp.speed_up(model(plain)) == 0, "once"
    assert gated_mlp.speed_up(model(other)) == gated_mlp.speed_up(model(odd)) == 0
    assert gated_mlp.speed_up(model(Phi3MLP(Phi3Config(hidden_size=64)).bfloat16())) == 0
    nearly = mlp(activation="gelu")
    nearly.gate_proj.weight.mul_(1e-4)  # where GELU and SiLU nearly agree
    assert gated_mlp.speed_up(model(nearly)) == 0
    assert gated_mlp.speed_up(model(Held().bfloat16())) == 0
    assert gated_mlp.speed_up(model(mlp(), device="cuda")) == 0
    assert gated_mlp.speed_up(model(mlp().float(), dtype=torch.float32)) == 0


@here
def test_a_copy_has_its_own_weights() -> None:
    sped_up = mlp()
    assert gated_mlp.speed_up(model(sped_up)) == 1
    rows = torch.randn(5, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    copied = copy.deepcopy(sped_up)
    copied.down_proj.weight.zero_()
    assert not copied(rows).any()
    assert sped_up(rows).any()


@here
def test_a_gradient_and_another_format_take_the_stock_layer() -> None:
    stock, sped_up = mlp(), mlp()
    gated_mlp.speed_up(model(sped_up))
    gradients = []
    for layer in (stock, sped_up):
        rows = torch.linspace(-1, 1, 128).view(2, 64).bfloat16().requires_grad_()
        layer(rows).sum().backward()
        gradients.append(rows.grad)
    assert torch.equal(*gradients)
    elsewhere = copy.deepcopy(sped_up).to("meta")
    assert elsewhere(torch.empty(2, 64, dtype=torch.bfloat16, device="meta")).is_meta
    exact = torch.linspace(-1, 1, 64)[None]
    assert torch.equal(sped_up.float()(exact), stock.float()(exact))


@here
def test_it_is_used_where_it_is_for_the_processor() -> None:
    """Else a fault in the code would go unnoticed: torch would compute them, slowly."""
    assert gated_mlp.available()


@here
def test_it_needs_no_more_than_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM divides registers that a processor lacks: the code for one of 2013 gives the same bits here."""
    import llvmlite.binding as llvm

    class Features(dict[str, bool]):
        def flatten(self) -> str:
            return "+avx2,+fma,+f16c,+bmi2"

    gate, up = halves(9, 576)
    wanted = gated_mlp.gated(gate, up)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "haswell")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: Features(avx2=True))
    code = gated_mlp.code.__wrapped__()
    monkeypatch.setattr(gated_mlp, "code", lambda: code)
    assert torch.equal(gated_mlp.gated(gate, up), wanted)


@here
@pytest.mark.parametrize("missing", ["llvmlite", "openmp", "right"])
def test_where_something_is_missing_the_layers_are_stock(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        for name in ("layers.gate_code", "paths.path_attention_code", "linear.machine_code"):
            monkeypatch.delitem(sys.modules, f"decoder.model.{name}", raising=False)
    elif missing == "openmp":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    else:
        monkeypatch.setattr(torch, "allclose", lambda *tensors, **bounds: False)
    monkeypatch.setattr(gated_mlp, "code", gated_mlp.code.__wrapped__)
    monkeypatch.setattr(gated_mlp, "available", gated_mlp.available.__wrapped__)
    assert gated_mlp.speed_up(model(mlp())) == 0
