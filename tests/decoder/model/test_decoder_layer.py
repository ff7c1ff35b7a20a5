"""Decoder layers as prepared calls: the bits of their modules, and the same cache."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.layers import decoder_layer, rms_norm
from decoder.model.linear import rounding, tiled_linear
from decoder.model.linear.int8 import vnni
from decoder.model.linear.quantise import quantise
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from tests.support.models.stock_models import random_tree, stock_model

FORMS = ["LlamaConfig", "Qwen2Config", "Qwen3Config", "MistralConfig"]
tiled = pytest.mark.skipif(
    not tiled_linear.suits(torch.bfloat16), reason="the processor has no AVX-512 BF16, or matrix units"
)
FORMATS = [
    pytest.param("bfloat16", marks=tiled),
    pytest.param(
        "int8", marks=pytest.mark.skipif(not vnni.suits(), reason="the processor has no AVX-512 VNNI, or AMX")
    ),
]


def model(form: str = "LlamaConfig", number_format: str = "bfloat16", **options: Any) -> Any:
    made = stock_model(form, **options)
    if number_format == "int8":
        quantise(made)
    return made


def passes(target: TargetModel) -> tuple[list[ForwardOutputs], list[KVCache]]:
    """Prompts of three sequences, and passes over trees of all of them, narrow ones and one that is too wide."""
    source = random.Random(1)
    wanted = RequiredOutputs(queries=frozenset({1}), hidden=frozenset({0, 2}), features=True)
    caches = [target.new_cache(4) for _ in range(3)]  # they have to grow
    outputs = []
    for number, cache in enumerate(caches):
        outputs.append(target.prefill([source.randrange(61) for _ in range(5 + 40 * number)], cache, wanted))
    for nodes in (0, 9, 9, 17, 40):
        parts = [TreePass(cache, source.randrange(61), random_tree(source, nodes), wanted) for cache in caches]
        outputs += target.forward_tree(parts)
        for cache in caches:
            cache.keep([0, 1] if nodes == 9 else [])
    outputs += target.forward_tree([TreePass(caches[1], 7, random_tree(source, 12), wanted)])
    return outputs, caches


def assert_same(ours: tuple[list[ForwardOutputs], list[KVCache]], theirs: tuple[list[Any], list[KVCache]]) -> None:
    for found, wanted in zip(ours[0], theirs[0], strict=True):
        assert torch.equal(found.logits, wanted.logits)
        assert torch.equal(found.queries[1], wanted.queries[1])
        assert torch.equal(found.features, wanted.features)
        for layer in (0, 2):
            assert torch.equal(found.hidden[layer], wanted.hidden[layer])
    for cache, other in zip(ours[1], theirs[1], strict=True):
        assert torch.equal(cache.rows(), other.rows())


def by_modules(form: str, number_format: str, **options: Any) -> TargetModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder_layer, "speed_up", lambda model: [])
        return TargetModel(model(form, number_format, **options))


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The rows of the layers that run as calls."""
    rows: list[int] = []
    stock = decoder_layer.LayerCalls.run

    def counting(calls: Any, given: torch.Tensor, *rest: Any) -> torch.Tensor:
        rows.append(given.shape[1])
        return stock(calls, given, *rest)

    with patch.context() as inner:
        inner.setattr(decoder_layer.LayerCalls, "run", counting)
        yield rows


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("form", FORMS)
def test_every_bit_is_the_modules(form: str, number_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetModel(model(form, number_format))
    assert (target.prepared, target.along_paths) == (3, True)
    with counted(monkeypatch) as rows:
        found = passes(target)
    assert set(rows) == {5, 45, 3, 30, 54, 13}, "not of 85 and 123 rows"
    assert_same(found, passes(by_modules(form, number_format)))


@tiled
def test_bitwise_passes_that_cost_nothing_run_as_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetModel(model(), bitwise=None)
    assert target.bitwise
    with counted(monkeypatch) as rows:
        found = passes(target)
    assert 13 in rows
    assert_same(found, passes(by_modules("LlamaConfig", "bfloat16")))


@tiled
def test_threads_change_nothing() -> None:
    """Layers so wide that each kind of call takes two."""
    wide = {"hidden_size": 1024, "intermediate_size": 2048, "num_attention_heads": 32}
    target, threads = TargetModel(model(**wide)), torch.get_num_threads()
    assert target.prepared == 3
    found = []
    try:
        for number in (2, 1):
            torch.set_num_threads(number)
            found.append(passes(target))
    finally:
        torch.set_num_threads(threads)
    assert_same(*found)


@tiled
def test_a_hook_is_called_and_may_change_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    target, other = TargetModel(model()), by_modules("LlamaConfig", "bfloat16")
    passes(target)  # prepared before
    for made in (target, other):
        first, layer, last = made.model.model.layers
        layer.self_attn.v_proj.register_forward_hook(lambda module, inputs, output: output * 2)
        last.mlp.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
        first.register_forward_hook(lambda module, inputs, output: output + 1)
    with counted(monkeypatch) as rows:
        found = passes(target)
    assert rows.count(13) == 1, "the first layer's: its own hook is around it"
    assert_same(found, passes(other))


@tiled
def test_a_hook_that_is_there_from_the_start_hides_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that ran the modules on both sides would say that anything computes alike."""
    made = by_modules("LlamaConfig", "bfloat16").model
    made.model.layers[1].self_attn.o_proj.register_forward_hook(lambda module, inputs, output: output * 2)
    assert not decoder_layer.speed_up(made)
    plain = by_modules("LlamaConfig", "bfloat16").model
    plain.model.layers[1].self_attn.o_proj.register_forward_hook(lambda module, inputs, output: None)
    monkeypatch.setattr(decoder_layer.LayerCalls, "_prepare", lambda *given: plain.no_such_thing)
    assert not decoder_layer.speed_up(plain)


def replaced(target: TargetModel) -> None:
    layer = target.model.model.layers[1]
    layer.mlp.down_proj = torch.nn.Linear(128, 64, bias=False, dtype=torch.bfloat16)
    layer.mlp.down_proj.weight.data.fill_(0.25)


def in_another_format(target: TargetModel) -> None:
    mlp = target.model.model.layers[1].mlp
    mlp.up_proj.float()  # a stock layer from now on
    mlp.up_proj.bfloat16().weight.data.fill_(0.25)


def with_another_weight(target: TargetModel) -> None:
    norm = target.model.model.layers[1].post_attention_layernorm
    norm.weight = torch.nn.Parameter(torch.full_like(norm.weight, 3.0), requires_grad=False)


def written_to(target: TargetModel) -> None:
    target.model.model.layers[1].input_layernorm.weight.mul_(2)


def with_another_forward(target: TargetModel) -> None:
    layer = target.model.model.layers[1].self_attn.q_proj
    layer.forward = lambda rows: type(layer).forward(layer, rows) * 2


@tiled
@pytest.mark.parametrize("in_a_copy", [False, True])
@pytest.mark.parametrize("change", [replaced, in_another_format, with_another_weight, written_to, with_another_forward])
def test_what_is_changed_counts(change: Callable[[TargetModel], None], in_a_copy: bool) -> None:
    target, other = TargetModel(model()), by_modules("LlamaConfig", "bfloat16")
    before = passes(target)
    if in_a_copy:
        target, other = copy.deepcopy((target, other))
    for made in (target, other):
        change(made)
    found = passes(target)
    assert not torch.equal(found[0][0].logits, before[0][0].logits)
    assert_same(found, passes(other))


@tiled
def test_in_another_format_and_back_its_modules_run(monkeypatch: pytest.MonkeyPatch) -> None:
    target, other = TargetModel(model()), by_modules("LlamaConfig", "bfloat16")
    passes(target)
    for made in (target, other):
        made.model.float().bfloat16()
    with counted(monkeypatch) as rows:
        found = passes(target)
    assert not rows
    assert_same(found, passes(other))


@tiled
def test_one_models_pass_does_not_disturb_anothers() -> None:
    """Each has memory of its own, copies too."""
    first = TargetModel(model())
    wanted = passes(first)
    for second in (TargetModel(model("Qwen2Config")), copy.deepcopy(first)):
        expected = passes(second)
        assert_same(passes(first), wanted)
        assert_same(passes(second), expected)


@tiled
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("GemmaConfig", {}),
        ("OlmoConfig", {}),
        ("LlamaConfig", {"intermediate_size": 144}),  # the last tile of outputs is filled up
        ("LlamaConfig", {"head_dim": 16}),  # rotated by torch
        ("LlamaConfig", {"hidden_act": "gelu"}),
    ],
)
def test_other_forms_run_by_their_modules(form: str, options: dict[str, Any]) -> None:
    assert TargetModel(model(form, **options)).prepared == 0


@tiled
def test_a_layer_of_another_version_runs_by_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that computes otherwise than its name tells, or gives more than its rows."""
    stock, made = LlamaDecoderLayer.forward, by_modules("LlamaConfig", "bfloat16").model
    monkeypatch.setattr(LlamaDecoderLayer, "forward", lambda *given, **rest: stock(*given, **rest) * 2)
    assert not decoder_layer.speed_up(made)
    monkeypatch.setattr(LlamaDecoderLayer, "forward", lambda *given, **rest: (stock(*given, **rest),))
    assert not decoder_layer.speed_up(made)
    monkeypatch.undo()
    assert len(decoder_layer.speed_up(made)) == 3


def test_without_code_for_its_products_the_modules_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled_linear, "available", lambda *given: False)
    assert TargetModel(model()).prepared == 0


@tiled
def test_without_code_for_norms_the_modules_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rms_norm, "available", lambda: False)
    assert TargetModel(model()).prepared == 0


@pytest.mark.skipif(not rounding.suits(), reason="the processor has no AVX2")
def test_other_numbers_run_by_the_modules() -> None:
    assert TargetModel(model().float()).prepared == 0
