"""`exact: strict`: near-ties of passes over several rows are decided by one-token passes, and nothing else changes."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from decoder import Engine, SamplingParams, Sequence
from decoder.drafters.base import Drafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.target import TargetModel
from decoder.sampling.history import History
from decoder.sampling.near_ties import THRESHOLDS, decide, is_near_tie
from decoder.sampling.select import select
from tests.support.tiny_models import AdversarialDrafter, RandomDrafter, UnsteadyTarget, tiny_model, tiny_target

VOCAB = 61
PROMPTS = [[5, 6, 7, 8, 5, 6], [9, 10, 11, 9, 10, 11, 9], [3] * 5, [20, 30, 40, 20, 30]]
GREEDY = SamplingParams(max_tokens=32, ignore_eos=True)
SAMPLED = dataclasses.replace(GREEDY, temperature=0.7, seed=5)
SHARP = dataclasses.replace(GREEDY, temperature=0.05, seed=5)
PENALISED = dataclasses.replace(GREEDY, repetition_penalty=1.2, frequency_penalty=0.1)
PARAMS = [GREEDY, SAMPLED, PENALISED]
NOISE = 0.3
"""Most that wide passes move a logit by."""


def run(engine: Engine, prompt: list[int], params: SamplingParams, drafter: str | Drafter) -> Sequence:
    sequence = engine.start(prompt, params, drafter=drafter)
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return sequence


def strict(params: SamplingParams) -> SamplingParams:
    return dataclasses.replace(params, exact="strict")


def drafters(answer: list[int], seed: int) -> list[str | Drafter]:
    return ["casd", AdversarialDrafter(answer, VOCAB, seed), RandomDrafter(seed, VOCAB)]


@pytest.fixture(scope="module")
def target() -> TargetModel:
    return tiny_target(memory=0.05)


@pytest.mark.parametrize("params", [*PARAMS, SHARP])
def test_a_huge_threshold_makes_every_choice_a_one_token_pass(target: TargetModel, params: SamplingParams) -> None:
    engine = Engine(target, "plain", near_tie=float("inf"))
    for number, prompt in enumerate(PROMPTS):
        plain = run(engine, prompt, params, "plain")
        for drafter in drafters(plain.tokens, number):
            got = run(engine, prompt, strict(params), drafter)
            assert got.tokens == plain.tokens
            assert got.stats.accepted == 0
            assert got.stats.near_ties == got.stats.extra_passes > 0
            assert got.stats.near_ties_changed == 0
            # Every token after the first took a pass of its own, and every one that was drafted for a second one.
            assert got.stats.steps == len(plain.tokens) - 1 + got.stats.near_ties
            assert got.cache.length == len(prompt) + len(plain.tokens) - 1


@pytest.mark.parametrize("params", PARAMS)
def test_threshold_zero_changes_nothing(target: TargetModel, params: SamplingParams) -> None:
    engine = Engine(target, "plain", near_tie=0.0)
    for number, prompt in enumerate(PROMPTS):
        answer = run(engine, prompt, params, "plain").tokens
        pairs = zip(drafters(answer, number), drafters(answer, number), strict=True)
        for ours, theirs in pairs:
            got, usual = run(engine, prompt, strict(params), ours), run(engine, prompt, params, theirs)
            got.stats.ms = usual.stats.ms
            assert (got.tokens, got.stats) == (usual.tokens, usual.stats)


@pytest.mark.parametrize("params", [*PARAMS, SHARP])
def test_strict_undoes_what_noise_of_wide_passes_does(params: SamplingParams) -> None:
    """With a threshold of twice the noise, no token that plain would not choose can be committed by a wide pass."""
    engine = Engine(UnsteadyTarget(tiny_model(memory=0.05), NOISE), "plain", near_tie=2 * NOISE)
    flipped = changed = accepted = 0
    for number, prompt in enumerate(PROMPTS):
        plain = run(engine, prompt, params, "plain")
        for usual, careful in zip(drafters(plain.tokens, number), drafters(plain.tokens, number), strict=True):
            flipped += run(engine, prompt, params, usual).tokens != plain.tokens
            got = run(engine, prompt, strict(params), careful)
            assert got.tokens == plain.tokens
            changed += got.stats.near_ties_changed
            accepted += got.stats.accepted
            assert got.stats.near_ties_changed <= got.stats.near_ties == got.stats.extra_passes
    assert flipped > 0
    assert changed > 0
    assert accepted > 0


def test_a_batch_of_strict_and_other_answers(target: TargetModel) -> None:
    engine = Engine(target, "plain", near_tie=0.5)
    wanted = [run(engine, prompt, params, "plain").tokens for params in PARAMS for prompt in PROMPTS]
    sequences = []
    for number, (params, prompt) in enumerate((params, prompt) for params in PARAMS for prompt in PROMPTS):
        chosen = strict(params) if number % 3 else params
        sequences.append(engine.start(prompt, chosen, drafter=drafters(wanted[number], number)[number % 3]))
        engine.prefill(sequences[-1])
    while running := [sequence for sequence in sequences if not sequence.finished]:
        engine.step(running)
    assert [sequence.tokens for sequence in sequences] == wanted
    assert sum(sequence.stats.near_ties for sequence in sequences) > 0
    assert all(sequence.stats.near_ties == 0 for sequence in sequences[::3])


def test_steps_of_a_near_tie_at_the_root_hold_no_tokens_and_nobody_observes_them(target: TargetModel) -> None:
    class Watching(RandomDrafter):
        seen = 0

        def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
            assert accepted.tokens
            assert len(outputs.logits) == 1
            self.seen += len(accepted.tokens)

    engine = Engine(target, "plain", near_tie=float("inf"))
    drafter = Watching(3, VOCAB)
    steps = list(engine.generate(PROMPTS[0], strict(GREEDY), drafter=drafter))
    empty = [step for step in steps if not step.tokens]
    assert empty
    assert all(step.finish_reason is None and step.sources == () for step in empty)
    assert sum(len(step.tokens) for step in steps) == drafter.seen == GREEDY.max_tokens


def test_drafters_see_the_rows_that_chose_the_tokens_of_a_strict_step(target: TargetModel) -> None:
    class Reading(AdversarialDrafter):
        required_outputs = RequiredOutputs(hidden=frozenset({1}), all_logits=True)
        cut = 0

        def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
            if tree:
                assert outputs.logits.argmax(1).tolist() == accepted.tokens
                assert len(outputs.hidden[1]) == len(accepted.tokens)
                self.cut += accepted.doubtful is not None

    engine = Engine(target, "plain", near_tie=0.5)
    answer = run(engine, PROMPTS[1], GREEDY, "plain").tokens
    drafter = Reading(answer, VOCAB, 4)
    assert run(engine, PROMPTS[1], strict(GREEDY), drafter).tokens == answer
    assert drafter.cut > 0


def test_limits_stops_and_ends_inside_a_strict_run(target: TargetModel) -> None:
    engine = Engine(target, "plain", [2], lambda ids: "".join(chr(97 + i % 26) for i in ids), near_tie=0.5)
    long = run(engine, PROMPTS[0], GREEDY, "plain").tokens
    stops = [SamplingParams(max_tokens=size, ignore_eos=True) for size in range(1, 14)]
    stops += [SamplingParams(max_tokens=40, ignore_eos=True, stop_token_ids=(token,)) for token in set(long)]
    stops += [SamplingParams(max_tokens=40, stop=(stop,)) for stop in ("ab", "q", "z")]
    for number, params in enumerate(stops):
        plain = run(engine, PROMPTS[0], params, "plain")
        got = run(engine, PROMPTS[0], strict(params), AdversarialDrafter(long, VOCAB, number))
        assert (got.tokens, got.finish_reason) == (plain.tokens, plain.finish_reason)
        assert got.stats.near_ties == got.stats.extra_passes


def test_cancelling_before_a_near_tie_is_decided(target: TargetModel) -> None:
    engine = Engine(target, "plain", near_tie=float("inf"))
    sequence = engine.start(PROMPTS[0], strict(GREEDY), drafter=RandomDrafter(3, VOCAB))
    engine.prefill(sequence)
    while sequence.doubtful is None:
        engine.step([sequence])
    sequence.cancel()
    [step] = engine.step([sequence])
    assert (step.tokens, step.finish_reason) == ((), "cancelled")
    assert sequence.stats.near_ties == sequence.stats.extra_passes + 1


def test_other_answers_take_no_margin(target: TargetModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a margin was taken")

    monkeypatch.setattr("decoder.verify.decide", refuse)
    engine = Engine(target, "plain")
    run(engine, PROMPTS[0], GREEDY, "casd")
    run(engine, PROMPTS[0], strict(GREEDY), "plain")  # passes of one row have none to take either
    with pytest.raises(AssertionError):
        run(engine, PROMPTS[0], strict(GREEDY), "casd")


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 4.0])
def test_decide_picks_what_select_picks(temperature: float) -> None:
    source = random.Random(7)
    for case in range(60):
        generator = torch.Generator().manual_seed(case)
        logits = torch.round(torch.randn(40, generator=generator, dtype=torch.float64), decimals=case % 3)  # ties
        params = SamplingParams(
            temperature=temperature,
            top_k=source.choice([0, 1, 5]),
            top_p=source.choice([1.0, 0.7]),
            repetition_penalty=source.choice([1.0, 1.3]),
            seed=case,
        )
        history = History([1, 2, 3])
        token, margin = decide(logits, params, case, history)
        assert token == select(logits, params, case, history)
        assert margin >= 0.0
        if temperature == 0.0 and params.plain_greedy:
            best = torch.sort(logits, descending=True).values
            assert margin == pytest.approx(float(best[0] - best[1]))


def test_a_margin_is_compared_in_logits() -> None:
    logits = torch.tensor([1.0, 1.2, -9.0], dtype=torch.float64)
    assert decide(logits, SamplingParams(), 0, History([])) == (1, pytest.approx(0.2))
    assert is_near_tie(0.2, SamplingParams(), 0.25)
    assert not is_near_tie(0.2, SamplingParams(), 0.2)
    assert is_near_tie(2.0, SamplingParams(temperature=0.1), 0.25)  # 0.2 in logits
    alone = decide(logits, SamplingParams(temperature=1.0, top_k=1), 0, History([]))
    assert alone == (1, float("inf"))
    assert decide(logits[:1], SamplingParams(), 0, History([])) == (0, float("inf"))
    assert decide(logits, SamplingParams(logit_bias={0: 1.0}), 0, History([])) == (0, pytest.approx(0.8))


def test_every_dtype_has_a_threshold_and_an_engine_its_own(target: TargetModel) -> None:
    assert set(THRESHOLDS) == {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    assert Engine(target, "plain").near_tie == THRESHOLDS[torch.float64]
    assert Engine(target, "plain", near_tie=0.0).near_tie == 0.0
    with pytest.raises(ValueError, match="near_tie"):
        Engine(target, "plain", near_tie=-1.0)
    with pytest.raises(ValueError, match="'default', 'strict' or 'bitwise'"):
        SamplingParams(exact="exactly")  # type: ignore[arg-type]
