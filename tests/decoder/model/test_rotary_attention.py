"""Rotary embeddings in machine code: the bits of the stock layers, and the same cache."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaAttention

from decoder.model.attention import PassCache, Span
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.layers import rotary_attention
from decoder.model.linear import rounding
from decoder.model.pass_parts import TreePass
from decoder.model.paths import path_attention
from decoder.model.paths.paths import Paths
from decoder.model.target import TargetModel
from tests.support.models.stock_models import random_tree, stock_model

here = pytest.mark.skipif(not rounding.suits(), reason="the processor has no AVX2")
FORMS = ["LlamaConfig", "Qwen2Config", "Qwen3Config", "MistralConfig"]


def model(form: str = "LlamaConfig", **options: Any) -> Any:
    """Two layers that are not prepared as a whole: their gates do not fill a tile."""
    return stock_model(form, **({"intermediate_size": 48, "num_hidden_layers": 2} | options))


def attending(form: str = "LlamaConfig", **options: Any) -> Any:
    """A model as a target gives it to `speed_up`."""
    made = model(form, **options)
    made.set_attn_implementation("rag_tree")
    return made


def passes(target: TargetModel) -> tuple[list[ForwardOutputs], list[KVCache]]:
    """Prompts of three sequences, and two passes over trees of all of them."""
    source = random.Random(1)
    wanted = RequiredOutputs(queries=frozenset({1}))
    caches = [target.new_cache(4) for _ in range(3)]  # they have to grow
    outputs = []
    for number, cache in enumerate(caches):
        outputs.append(target.prefill([source.randrange(61) for _ in range(5 + 40 * number)], cache, wanted))
    for nodes in (9, 40):
        parts = [TreePass(cache, source.randrange(61), random_tree(source, nodes), wanted) for cache in caches]
        outputs += target.forward_tree(parts)
        for cache in caches:
            cache.keep([0, 1] if nodes == 9 else [])
    return outputs, caches


@here
@pytest.mark.parametrize("form", FORMS)
def test_every_bit_is_the_stock_layers(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetModel(model(form))
    assert (target.rotations, target.prepared, target.along_paths) == (2, 0, True)
    found, kept = passes(target)
    monkeypatch.setattr(rotary_attention, "available", lambda: False)
    stock = TargetModel(model(form))
    assert stock.rotations == 0
    wanted, stock_kept = passes(stock)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours.logits, theirs.logits)
        assert torch.equal(ours.queries[1], theirs.queries[1])
    for cache, other in zip(kept, stock_kept, strict=True):
        assert torch.equal(cache.rows(), other.rows())


@here
def test_without_paths_the_stock_layer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetModel(model())
    calls = []
    monkeypatch.setattr(rotary_attention, "rotate", lambda *given: calls.append(given))
    target.along_paths = False
    passes(target)
    assert not calls


@here
def test_a_gradient_takes_the_stock_layer() -> None:
    sped_up = model()
    assert TargetModel(sped_up).rotations == 2
    rows = torch.randn(1, 3, 64, generator=torch.Generator().manual_seed(3)).bfloat16()
    turns = sped_up.model.rotary_emb(rows, torch.arange(3)[None])
    cache = KVCache(2, 2, 32, 3, torch.bfloat16, torch.device("cpu"))
    passing = PassCache([Span(cache, 0, 3, None, [Paths.of(0, np.tri(3, dtype=np.bool_))])])
    assert rotary_attention.fits(rows, turns, passing, 32)
    assert not rotary_attention.fits(rows.clone().requires_grad_(), turns, passing, 32)
    assert not rotary_attention.fits(rows.float(), turns, passing, 32)
    assert not rotary_attention.fits(rows, (turns[0][..., :16], turns[1][..., :16]), passing, 32)
    assert not rotary_attention.fits(rows, (turns[0].float(), turns[1].float()), passing, 32)
    assert not rotary_attention.fits(rows, turns, None, 32)


@here
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("CohereConfig", {}),  # rotates neighbours
        ("GlmConfig", {"pad_token_id": 0}),  # rotates a part of a head
        ("Phi3Config", {}),  # one projection for all
        ("OlmoeConfig", {"clip_qkv": 4.0, "num_experts": 2, "num_experts_per_tok": 1}),  # holds numbers below a bound
        ("LlamaConfig", {"head_dim": 16}),
        ("LlamaConfig", {"head_dim": 40}),
    ],
)
def test_other_forms_stay_stock(form: str, options: dict[str, Any]) -> None:
    assert rotary_attention.speed_up(attending(form, **options)) == 0


@here
def test_other_formats_stay_stock() -> None:
    assert TargetModel(model().float()).rotations == 0


@here
def test_it_is_used_where_it_is_for_the_processor() -> None:
    """Else a fault in the code would go unnoticed: torch would rotate, slowly."""
    assert rotary_attention.available()
    assert path_attention.available(torch.bfloat16, 32)


@here
@pytest.mark.parametrize("missing", ["llvmlite", "openmp"])
def test_where_something_is_missing_the_layers_are_stock(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, "decoder.model.layers.rotary_code", raising=False)
        monkeypatch.delitem(sys.modules, "decoder.model.linear.machine_code", raising=False)
    else:
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert rotary_attention.speed_up(attending()) == 2, "the code is there already"
    monkeypatch.setattr(rotary_attention, "code", rotary_attention.code.__wrapped__)
    assert rotary_attention.speed_up(attending()) == 0


@here
def test_a_layer_of_another_version_stays_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that computes otherwise than its name tells."""
    stock = LlamaAttention.forward

    def otherwise(layer: Any, hidden_states: torch.Tensor, **rest: Any) -> Any:
        return stock(layer, hidden_states=hidden_states * 2, **rest)

    monkeypatch.setattr(LlamaAttention, "forward", otherwise)
    assert rotary_attention.speed_up(attending()) == 0


@here
def test_it_needs_no_more_than_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM divides registers that a processor lacks: the code for one of 2013 gives the same bits here."""
    import llvmlite.binding as llvm

    class Features(dict[str, bool]):
        def flatten(self) -> str:
            return "+avx2,+fma,+f16c,+bmi2"

    wanted, _ = passes(TargetModel(model()))
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "haswell")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: Features(avx2=True))
    code = rotary_attention.code.__wrapped__()
    monkeypatch.setattr(rotary_attention, "code", lambda: code)
    found, _ = passes(TargetModel(model()))
    assert all(torch.equal(*(one.logits for one in pair)) for pair in zip(found, wanted, strict=True))
