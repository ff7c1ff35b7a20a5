"""Bitwise passes: the logits of every draft are those of plain decoding, bit by bit."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any, Literal, get_args

import pytest
import torch

from decoder import Engine, SamplingParams, dtypes
from decoder.drafters.context import DrafterContext
from decoder.errors import BitwiseUnavailable
from decoder.model import bitwise, bitwise_check
from decoder.model.linear import packed_linear, tiled_linear
from decoder.model.linear.quantise import quantise
from decoder.model.paths import path_attention
from decoder.model.paths.paths import Paths
from decoder.model.target import TargetModel
from decoder.planning.calibration import fingerprint
from tests.decoder.test_lossless import DRAFTERS, HEADED, VOCAB, build, letters, prompts
from tests.support.models.file_bytes import blocks_of
from tests.support.models.pass_logits import logits_along
from tests.support.tiny_models import decoded, knowing_adapters, tiny_eagle, tiny_model

WINDOW = 1024
MODES = {
    "greedy": SamplingParams(max_tokens=48, ignore_eos=True),
    "sampled": SamplingParams(max_tokens=48, ignore_eos=True, temperature=0.9, seed=4),
}
Kernels = Literal["own", "own in bfloat16", "torch's", "int8", "int4"]
"""What multiplies: our code where the processor has its instructions, else torch's kernels."""
LENGTHS = (1, 90, 120, 127, 128, 250, 600)


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "free_bytes", lambda: 1 << 40)


def target(architecture: str = "llama", memory: float = 1.0, kernels: Kernels = "own") -> TargetModel:
    dtype = torch.bfloat16 if kernels == "own in bfloat16" else torch.float32
    made = tiny_model(architecture, VOCAB, window=WINDOW, memory=memory, hidden=256).to(dtype)
    if kernels == "int4" and (missing := dtypes.problem("int4", "cpu")):
        pytest.skip(missing)
    if kernels in {"int8", "int4"}:
        quantise(made, blocks_of=blocks_of(made) if kernels == "int4" else None)
    with pytest.MonkeyPatch.context() as patch:
        if kernels == "torch's":
            patch.setattr(tiled_linear, "available", lambda dtype: False)
        return TargetModel(made, bitwise=True)


@functools.cache
def engine(architecture: str, kernels: Kernels = "own") -> Engine:
    made = target(architecture, 0.01, kernels)
    made.adapters = knowing_adapters(made)
    small = TargetModel(tiny_model(architecture, VOCAB, window=WINDOW, memory=0.0).float())
    context = DrafterContext(
        draft_model=small, eagle_head=tiny_eagle(made, draft_vocab=50), induction_heads=((0, 1), (1, 3))
    )
    return Engine(made, "plain", [2], letters, context)


@functools.cache
def plainly(
    architecture: str, kernels: Kernels, mode: str, length: int
) -> tuple[list[int], list[int], dict[int, torch.Tensor]]:
    """A prompt, its answer by plain decoding, and the logits of that by position: the same for every drafter."""
    source = random.Random(f"{architecture} {kernels} {mode} {length}")
    run = [source.randrange(3, VOCAB) for _ in range(12)]
    prompt = [*prompts()[length % 7], *run * (length // 12)][-length:]
    shared = engine(architecture, kernels)
    answer = decoded(shared, prompt, MODES[mode], "plain").tokens
    with pytest.MonkeyPatch.context() as patch:
        return prompt, answer, dict(logits_along(shared, prompt, MODES[mode], "plain", [*prompt, *answer], patch))


def every_draft() -> Iterator[object]:
    """Drafter, mode and kernels; without `--full` one run a drafter, each kernel in its turn."""
    for number, drafter in enumerate(name for name in DRAFTERS if name not in HEADED):
        kinds = get_args(Kernels)[: 1 if drafter == "union" else None]  # its head is trained here, in float32
        runs = [*((drafter, "greedy", kernels) for kernels in kinds), (drafter, "sampled", "own")]
        for place, run in enumerate(runs):
            short = place == number % len(kinds)
            yield pytest.param(*run, marks=() if short else pytest.mark.full)


@pytest.mark.parametrize(("drafter", "mode", "kernels"), [*every_draft()])
def test_every_draft_has_the_logits_of_plain_decoding(
    drafter: str, mode: str, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts end before, at and behind the borders of blocks; rows of one pass differ in number every step."""
    architecture = random.Random(drafter).choice(("llama", "qwen2"))
    shared = engine(architecture, kernels)
    compared = 0
    for length in LENGTHS:
        prompt, answer, expected = plainly(architecture, kernels, mode, length)
        text = [*prompt, *answer]
        named = build(drafter, answer, length)
        for place, logits in logits_along(shared, prompt, MODES[mode], named, text, monkeypatch):
            assert torch.equal(logits, expected.get(place, logits)), (length, place)
            compared += place in expected
    assert compared >= len(LENGTHS) * 40


def test_batches_have_the_logits_of_each_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = engine("llama")
    alone = [decoded(shared, prompt, MODES["greedy"], "plain") for prompt in prompts()]
    running = [shared.start(prompt, MODES["greedy"], drafter="auto") for prompt in prompts()]
    everything = list(running)
    while running:
        shared.step(running)
        running = [sequence for sequence in running if not sequence.finished]
    for got, expected in zip(everything, alone, strict=True):
        assert got.tokens == expected.tokens
        rows = min(got.cache.length, expected.cache.length)
        assert torch.equal(got.cache._buffer[:, :, :, :rows], expected.cache._buffer[:, :, :, :rows])


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize(("kernels", "fixed"), [("own", False), ("torch's", False), ("torch's", True)])
def test_the_check_passes_with_bitwise_passes_only(architecture: str, kernels: Kernels, fixed: bool) -> None:
    made = target(architecture, kernels=kernels)
    bitwise.fix_rows(made.model, fixed)
    assert bitwise_check.holds(made)
    assert not bitwise_check.holds(TargetModel(tiny_model(architecture, VOCAB, hidden=256).float()))


def test_the_check_sees_attention_that_goes_by_the_place_among_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_paths(part: TargetModel, of: object) -> list[Paths]:
        return []  # the stock kernel sums over a draft's other branches, too

    monkeypatch.setattr(TargetModel, "_paths", without_paths)
    with pytest.raises(BitwiseUnavailable, match="leave exact at its default"):
        bitwise_check.ensure(target())


def test_where_the_number_of_rows_matters_products_have_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product whose bits go by its number of rows, as on matrix units in bfloat16."""
    product = bitwise.BitwiseLinear._product

    def by_count(layer: bitwise.BitwiseLinear, rows: torch.Tensor) -> torch.Tensor:
        return product(layer, rows) * (1 + 2.0**-20 * len(rows))

    made = target(kernels="torch's")
    monkeypatch.setattr(bitwise.BitwiseLinear, "_product", by_count)
    bitwise_check.ensure(made)
    layers = [layer for layer in made.model.modules() if isinstance(layer, bitwise.BitwiseLinear)]
    assert layers
    assert all(layer.fixed for layer in layers)
    rows = torch.randn(130, layers[0].in_features)
    assert torch.equal(layers[0](rows)[64:65], layers[0](rows[64:65]))


def test_what_cannot_be_bitwise_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BitwiseUnavailable, match="the model is float64 on cpu; load it with dtype float32"):
        TargetModel(tiny_model(), bitwise=True)
    monkeypatch.setattr(packed_linear, "free_bytes", lambda: 0)
    monkeypatch.setattr(tiled_linear, "available", lambda dtype: False)
    with pytest.raises(BitwiseUnavailable, match="free some memory"):
        TargetModel(tiny_model().float(), bitwise=True)
    monkeypatch.setattr(path_attention, "available", lambda dtype, dim: False)
    with pytest.raises(BitwiseUnavailable, match="needs an x86 processor with AVX2, and llvmlite"):
        TargetModel(tiny_model().float(), bitwise=True)


def test_a_request_for_bits_needs_an_engine_that_keeps_them() -> None:
    params = SamplingParams(max_tokens=4, exact="bitwise")
    assert decoded(engine("llama"), [5, 6], params, "auto").tokens
    usual = Engine(TargetModel(tiny_model(vocab_size=VOCAB)), "plain")
    with pytest.raises(ValueError, match="an engine whose passes are"):
        usual.start([5, 6], params)


def test_strict_answers_need_no_second_look_at_near_ties_where_every_bit_is_kept() -> None:
    strict = SamplingParams(max_tokens=4, exact="strict")
    assert engine("llama").start([5, 6], strict).near_tie is None
    assert Engine(TargetModel(tiny_model(vocab_size=VOCAB)), "plain").start([5, 6], strict).near_tie is not None


def test_models_of_other_shapes_load_and_promise_only_what_our_code_multiplies() -> None:
    """A decoder layer without an `mlp`, and experts, which a library multiplies."""
    from transformers import MixtralConfig, MixtralForCausalLM, OPTConfig, OPTForCausalLM

    size: dict[str, Any] = {
        "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "max_position_embeddings": WINDOW,
    }  # fmt: skip
    opt = TargetModel(OPTForCausalLM(OPTConfig(ffn_dim=64, word_embed_proj_dim=64, **size)).float(), bitwise=None)
    assert not opt.bitwise or bitwise_check.holds(opt)
    experts = MixtralConfig(
        intermediate_size=64, num_key_value_heads=2, num_local_experts=2, sliding_window=None, **size
    )
    assert not TargetModel(MixtralForCausalLM(experts).float(), bitwise=None).bitwise


@pytest.mark.parametrize("kernels", ["own", "torch's"])
def test_costs_are_measured_apart_where_bitwise_passes_run_other_kernels(kernels: Kernels) -> None:
    if kernels == "own" and not tiled_linear.suits(torch.float32):
        pytest.skip("there is no code of our own for float32 on this processor")
    with pytest.MonkeyPatch.context() as patch:
        if kernels == "torch's":
            patch.setattr(tiled_linear, "available", lambda dtype: False)
        usual = TargetModel(tiny_model("llama", VOCAB, window=WINDOW, hidden=256).float())
    same = fingerprint(target(kernels=kernels), "tiny") == fingerprint(usual, "tiny")
    assert same == (kernels == "own")


def test_a_row_has_the_same_product_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled_linear, "available", lambda dtype: False)
    model = tiny_model(vocab_size=VOCAB, hidden=1536).float()
    bitwise.make_bitwise(TargetModel(model).model)
    layer = model.model.layers[0].self_attn.q_proj
    rows = torch.randn(300, layer.in_features)
    whole = layer(rows)
    for count in (1, 2, 7, 64, 65, 130):
        assert torch.equal(layer(rows[40 : 40 + count]), whole[40 : 40 + count])
