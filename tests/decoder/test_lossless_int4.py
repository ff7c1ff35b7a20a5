"""Models of blocks give plain's tokens: without exception in float64, else up to near-ties of plain's own choice.

What a layer gives does not depend on other rows; what rounds otherwise in passes of other rows is attention alone.
Bitwise passes, whose logits are equal too, have their tests in `model/test_bitwise.py`.
"""

from __future__ import annotations

import functools

import pytest
import torch

from decoder import Engine, Sequence
from decoder.model.linear.blocks.block_linear import BlockLinear
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.quantise import quantise
from decoder.model.target import TargetModel
from tests.decoder.test_lossless import MODES, VOCAB, build, equipment_of, letters, prompts
from tests.decoder.test_lossless_int8 import by_turns, check_near_tie, each_in_a_format
from tests.support.models.file_bytes import blocks_of, needs_int4
from tests.support.tiny_models import decoded, tiny_model

pytestmark = needs_int4


@functools.cache
def engine(dtype: torch.dtype) -> Engine:
    model = tiny_model("llama", VOCAB, memory=0.01, hidden=256)
    quantise(model, dtype, blocks_of(model))
    target = TargetModel(model)
    return Engine(target, "plain", [2], letters, equipment_of(target, "llama"))


@functools.cache
def plain(dtype: torch.dtype, prompt: tuple[int, ...], mode: str) -> Sequence:
    return decoded(engine(dtype), prompt, MODES[mode], "plain")


def test_the_model_has_both_kinds_of_layers() -> None:
    """Layers whose inputs are no multiple of 256 are int8."""
    layers = [layer for layer in engine(torch.float32).target.model.modules() if isinstance(layer, IntegerLinear)]
    assert {layer.FORMAT for layer in layers} == {"int8", "int4"}
    assert {layer.product.matrix.format for layer in layers if isinstance(layer, BlockLinear)} == {"Q4_K", "Q6_K"}
    assert engine(torch.float32).target.number_format == "int4"


@pytest.mark.parametrize(("drafter", "mode"), [*by_turns(("adversarial", "auto"))])
def test_in_float64_every_answer_is_plains(drafter: str, mode: str) -> None:
    for number, prompt in enumerate(prompts()):
        if (number + list(MODES).index(mode)) % 6:
            continue
        expected = plain(torch.float64, prompt, mode)
        got = decoded(engine(torch.float64), prompt, MODES[mode], build(drafter, expected.tokens, number))
        assert got.tokens == expected.tokens
        assert got.finish_reason == expected.finish_reason


@pytest.mark.parametrize(("drafter", "dtype"), [*each_in_a_format()])
def test_a_difference_is_a_near_tie(drafter: str, dtype: torch.dtype) -> None:
    shared, differing = engine(dtype), 0
    for number, prompt in enumerate(prompts()[::6]):
        expected = plain(dtype, prompt, "all")
        got = decoded(shared, prompt, MODES["all"], build(drafter, expected.tokens, number))
        differing += check_near_tie(shared, prompt, got, expected, "all")
    assert not differing or dtype is torch.bfloat16


def test_products_that_go_by_the_number_of_rows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate can fail: a product of several rows that is a little off gives other tokens."""
    expected = {prompt: plain(torch.float32, prompt, "greedy_no_eos").tokens for prompt in prompts()}
    right = IntegerLinear.forward

    def off(layer: IntegerLinear, rows: torch.Tensor) -> torch.Tensor:
        product = right(layer, rows)
        return product if rows.numel() == rows.shape[-1] else product * 1.02 + 0.02

    monkeypatch.setattr(BlockLinear, "forward", off)
    mode = MODES["greedy_no_eos"]
    got = {p: decoded(engine(torch.float32), p, mode, build("adversarial", expected[p], 1)).tokens for p in prompts()}
    assert got != expected
