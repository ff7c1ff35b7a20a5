"""The divergence report: the control counts what numerics change, strict answers change less; rates are per token."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from decoder import Engine, SamplingParams
from decoder.bench.decode.divergence import CONTROL, WIDTH, control_flips, divergence, lines
from decoder.bench.decode.interleaved import compare, modes_of
from decoder.bench.decode.outcomes import Difference, Outcome, PromptsFile
from decoder.bench.decode.rows import decode_rows, differences
from decoder.bench.decode.timing import TimedAnswer, measure
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError, Item
from decoder.recording.specs import split_exact
from decoder.sequence import PromptSegment
from tests.support.tiny_models import UnsteadyTarget, tiny_model, tiny_target

VOCAB = 61
NOISE = 0.3
"""Most that wide passes move a logit by."""
PARAMS = SamplingParams(max_tokens=60, ignore_eos=True)
PROMPT = [5, 6, 7, 8, 5, 6]
ITEMS = [Item("a", "bench", "qa", ("What is what is this?",)), Item("b", "bench", "chat", ("Write.", "Write again."))]


class Letters:
    """A chat whose prompt is the item's text, a token a character."""

    def prompt_ids(self, item: Item, replies: list[str]) -> list[int]:
        text = "".join([*item.messages()[: len(replies) + 1], *replies])
        return [3 + ord(character) % (VOCAB - 3) for character in text]

    def segments(self, item: Item, replies: list[str]) -> tuple[PromptSegment, ...]:
        return ()

    def text(self, ids: list[int]) -> str:
        return "".join(chr(64 + token) for token in ids)


def measured(tokens: list[int], steps: int) -> TimedAnswer:
    return TimedAnswer(tokens, "length", 1.0, 1.0, steps, 0, 0, 0)


@pytest.fixture(scope="module")
def steady() -> Engine:
    return Engine(tiny_target(vocab_size=VOCAB, seed=3, memory=0.05, window=400), "plain")


@pytest.fixture
def unsteady() -> Engine:
    target = UnsteadyTarget(tiny_model(vocab_size=VOCAB, seed=3, memory=0.05, window=400), NOISE)
    return Engine(target, "plain", near_tie=2 * NOISE)


@pytest.mark.parametrize("size", [1, 2, 3, 9, 10, 11, 19, 60])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_without_numerics_the_control_finds_nothing(steady: Engine, size: int, temperature: float) -> None:
    params = dataclasses.replace(PARAMS, max_tokens=size, temperature=temperature, repetition_penalty=1.1)
    plain = measure(steady, PROMPT, params, "plain").tokens
    assert control_flips(steady, PROMPT, plain, params) == []


def test_the_control_compares_every_token_with_passes_of_nine_rows(
    steady: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    forward = TargetModel.forward_tree

    def counted(target: TargetModel, batch: Any) -> Any:
        rows.extend(1 + len(part.tree) for part in batch if isinstance(part, TreePass))
        return forward(target, batch)

    plain = measure(steady, PROMPT, PARAMS, "plain").tokens
    monkeypatch.setattr(TargetModel, "forward_tree", counted)
    wrong = [(token + 1) % VOCAB if index in {1, 8, 9, 30, 59} else token for index, token in enumerate(plain)]
    flips = control_flips(steady, PROMPT, wrong, PARAMS)
    assert {1, 8, 9, 30, 59} <= set(flips)
    assert rows == [WIDTH + 1] * 6 + [5]  # 59 tokens after the prefill's


def test_the_control_counts_what_numerics_change(unsteady: Engine) -> None:
    plain = measure(unsteady, PROMPT, PARAMS, "plain").tokens
    flips = control_flips(unsteady, PROMPT, plain, PARAMS)
    assert 0 < len(flips) < len(plain) / 2
    assert 0 not in flips


def test_strict_lowers_flips_and_the_report_says_so(unsteady: Engine, tmp_path: Path) -> None:
    modes = modes_of("casd,casd:exact=strict")
    partial = PromptsFile(tmp_path / "p", {})
    params = dataclasses.replace(PARAMS, max_tokens=40)
    chat: Any = Letters()
    outcomes = compare(unsteady, chat, ITEMS, params, modes, partial, control=True)
    assert PromptsFile(tmp_path / "p", {}).read() == ({(o.id, o.turn): o for o in outcomes}, {})
    by_drafter = {entry["drafter"]: entry for entry in divergence(outcomes, modes, "plain")}
    assert by_drafter["plain"]["flips"] == by_drafter["casd:exact=strict"]["flips"] == 0
    assert by_drafter["casd"]["flips"] > 0
    assert by_drafter["casd"]["near_ties"] == 0
    assert by_drafter["casd:exact=strict"]["near_ties_changed"] > 0
    assert (
        0
        < by_drafter[CONTROL]["flips_per_1000"]
        == round(1000 * by_drafter[CONTROL]["flips"] / by_drafter["plain"]["tokens"], 3)
    )
    # Whatever flipped lay within the noise of wide passes.
    margins = [*by_drafter["casd"]["margins"], *by_drafter[CONTROL]["margins"]]
    assert all(0 <= margin <= 2 * NOISE for margin in margins)
    rows = decode_rows(outcomes, modes, model="m", dtype="d")
    json.dumps(rows, allow_nan=False)
    assert all(row["control_flips_per_1000"] is not None for row in rows)
    assert sum(row["near_ties"] for row in rows) == by_drafter["casd:exact=strict"]["near_ties"]
    listed = [entry["drafter"] for entry in differences(outcomes)]
    assert listed.count(CONTROL) == by_drafter[CONTROL]["flips"]
    assert listed.count("casd") == by_drafter["casd"]["flips"]
    texts = lines(by_drafter.values())
    assert len(texts) == 4
    assert "near-ties decided again" in texts[2]


def test_rates_are_per_token_compared() -> None:
    def outcome(name: str, difference: Difference | None, control: list[Difference] | None) -> Outcome:
        answers = {"plain": measured(list(range(50)), 49), "casd": measured(list(range(50)), 20)}
        return Outcome(name, "b", "c", 1, 7, answers, {} if difference is None else {"casd": difference}, control)

    flip = Difference(9, 16, 0.25)
    outcomes = [outcome("a", flip, [flip]), outcome("b", None, []), outcome("c", None, None)]
    plain, casd = decode_rows(outcomes, ["plain", "casd"], model="m", dtype="d")
    assert plain["flips_per_1000"] == 0.0
    assert casd["flips_per_1000"] == round(1000 / (10 + 50 + 50), 3)  # nothing is compared behind a difference
    assert casd["control_flips_per_1000"] == 10.0  # two answers of 50 tokens had a control
    without = decode_rows(outcomes[2:], ["plain", "casd"], model="m", dtype="d")
    assert without[1]["control_flips_per_1000"] is None
    assert [entry["drafter"] for entry in divergence(outcomes[2:], ["plain", "casd"], "plain")] == ["plain", "casd"]


def test_exact_is_the_requests_option() -> None:
    assert split_exact("casd") == ("casd", "default")
    assert split_exact("casd:matches=1:exact=strict:length=4") == ("casd:matches=1:length=4", "strict")
    with pytest.raises(BenchError, match="default or strict"):
        modes_of("casd:exact=very")


def test_bfloat16_is_reported_on_a_tiny_model() -> None:
    """Real numerics: half precision flips where passes differ in width, and strict answers flip no more often."""
    model = tiny_model(vocab_size=VOCAB, seed=3, memory=1.0, window=400).to(torch.bfloat16)
    engine = Engine(TargetModel(model), "plain")
    params = dataclasses.replace(PARAMS, max_tokens=60)
    plain = measure(engine, PROMPT, params, "plain").tokens
    assert len(control_flips(engine, PROMPT, plain, params)) < len(plain)
    strict = measure(engine, PROMPT, params, "casd:exact=strict")
    assert strict.near_ties > 0
