"""Int8 models give plain's tokens: without exception in float64, else up to near-ties of plain's own choice.

The layers' sums are exact in each format; what rounds otherwise in passes of other rows is attention alone. Bitwise
passes, whose logits are equal too, have their tests in `model/test_bitwise.py`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator

import pytest
import torch

from decoder import Engine, Sequence
from decoder.bench.decode.divergence import plain_margins
from decoder.model.linear.int8.int8_linear import Int8Linear
from decoder.model.linear.quantise import quantise
from decoder.model.target import TargetModel
from tests.decoder.test_lossless import AUTO, MODES, NAMED, PROMPTS, VOCAB, build, equipment_of, letters, prompts
from tests.support.tiny_models import decoded, tiny_model

DRAFTERS = (*NAMED, "eagle_zero", "random", "adversarial", *AUTO)
"""All but a head trained here, since training wants floating weights, and unions with it."""
EXACT = ("random", "adversarial", "auto", "auto_head", "eagle", "sdsat", "casd")
MARGIN = {torch.float32: 1e-3, torch.bfloat16: 0.5}
"""Largest margin of plain's choice at a first difference. Logits in bfloat16 are multiples of 1/8 or so here."""
MODE_NAMES = ("greedy_no_eos", "all", "grammar_sampled")


@functools.cache
def engine(architecture: str, dtype: torch.dtype) -> Engine:
    model = tiny_model(architecture, VOCAB, memory=0.01)
    quantise(model, dtype)
    target = TargetModel(model)
    return Engine(target, "plain", [2], letters, equipment_of(target, architecture))


@functools.cache
def plain(architecture: str, dtype: torch.dtype, prompt: tuple[int, ...], mode: str) -> Sequence:
    return decoded(engine(architecture, dtype), prompt, MODES[mode], "plain")


def first_difference(got: Sequence, expected: Sequence) -> int | None:
    pairs = zip(got.tokens, expected.tokens, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), None)


def by_turns(drafters: tuple[str, ...]) -> Iterator[object]:
    """Each drafter in each mode; without `--full` in every other one."""
    for number, drafter in enumerate(drafters):
        for place, mode in enumerate(MODES):
            yield pytest.param(drafter, mode, marks=pytest.mark.full if (number + place) % 2 else ())


@pytest.mark.parametrize("architecture", ["llama", pytest.param("qwen2", marks=pytest.mark.full)])
@pytest.mark.parametrize(("drafter", "mode"), [*by_turns(EXACT)])
def test_in_float64_every_answer_is_plains(drafter: str, mode: str, architecture: str) -> None:
    exact = engine(architecture, torch.float64)
    for number, prompt in enumerate(prompts()):
        if (number + list(MODES).index(mode)) % 6:
            continue
        expected = plain(architecture, torch.float64, prompt, mode)
        got = decoded(exact, prompt, MODES[mode], build(drafter, expected.tokens, number))
        assert got.tokens == expected.tokens
        assert got.finish_reason == expected.finish_reason


def each_in_a_format() -> Iterator[object]:
    """Every drafter in every format; without `--full` in one of them, by turns."""
    for number, drafter in enumerate(DRAFTERS):
        for place, dtype in enumerate(MARGIN):
            yield pytest.param(drafter, dtype, marks=() if place == number % 2 else pytest.mark.full)


@pytest.mark.parametrize(("drafter", "dtype"), [*each_in_a_format()])
def test_a_difference_is_a_near_tie(drafter: str, dtype: torch.dtype) -> None:
    shared = engine("llama", dtype)
    differing = 0
    for mode in MODE_NAMES:
        for number, prompt in enumerate(prompts()[::3]):
            expected = plain("llama", dtype, prompt, mode)
            got = decoded(shared, prompt, MODES[mode], build(drafter, expected.tokens, number))
            differing += check_near_tie(shared, prompt, got, expected, mode)
    assert not differing or dtype is torch.bfloat16


@pytest.mark.parametrize(("seed", "dtype"), [(0, torch.float64), (1, torch.float32), (2, torch.bfloat16)])
def test_batches_of_everything_at_once(seed: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of all modes and drafters share passes, join late and leave early; each says what it says alone."""
    source = random.Random(seed)
    monkeypatch.setattr("decoder.engine.MIXED_CHUNK", source.randint(1, 20))
    shared = engine("llama", dtype)
    waiting = []
    for number, mode in enumerate(MODES):
        prompt = prompts()[(number + seed) % PROMPTS]
        expected = plain("llama", dtype, prompt, mode)
        drafter = build(source.choice(DRAFTERS), expected.tokens, number)
        waiting.append((shared.start(prompt, MODES[mode], drafter=drafter), expected, prompt, mode))
    everything = list(waiting)
    running: list[Sequence] = []
    while waiting or running:
        while waiting and (not running or source.random() < 0.4):
            running.append(waiting.pop()[0])
        shared.step(running)
        running = [sequence for sequence in running if not sequence.finished]
    for got, expected, prompt, mode in everything:
        differs = check_near_tie(shared, prompt, got, expected, mode)
        assert not differs or dtype is torch.bfloat16


def test_products_that_go_by_the_number_of_rows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate can fail: a product of several rows that is a little off gives other tokens."""
    shared = engine("llama", torch.float32)
    expected = {prompt: plain("llama", torch.float32, prompt, "greedy_no_eos").tokens for prompt in prompts()}
    right = Int8Linear.forward

    def off(layer: Int8Linear, rows: torch.Tensor) -> torch.Tensor:
        product = right(layer, rows)
        return product if rows.numel() == rows.shape[-1] else product * 1.02 + 0.02

    monkeypatch.setattr(Int8Linear, "forward", off)
    mode = MODES["greedy_no_eos"]
    got = {p: decoded(shared, p, mode, build("adversarial", expected[p], 1)).tokens for p in prompts()}
    assert got != expected


def check_near_tie(shared: Engine, prompt: tuple[int, ...], got: Sequence, expected: Sequence, mode: str) -> bool:
    """Whether two answers differ; fails unless the first difference lies at a near-tie of plain's choice."""
    place = first_difference(got, expected)
    if place is None:
        assert got.tokens == expected.tokens
        assert got.finish_reason == expected.finish_reason
        return False
    margin = plain_margins(shared, list(prompt), expected.tokens, [place], MODES[mode])[place]
    assert margin <= MARGIN[shared.target.dtype], f"token {place} differs although plain's margin is {margin}"
    return True
