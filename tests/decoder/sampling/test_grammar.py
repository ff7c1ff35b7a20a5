"""Answers that follow a grammar, and log-probabilities: the same under speculation as without."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from decoder import Engine, SamplingParams, Sequence
from decoder.drafters.base import Drafter
from decoder.sampling.history import History
from decoder.sampling.select import select
from tests.support.tiny_models import AdversarialDrafter, RandomDrafter, WalkGrammar, tiny_target

VOCAB = 61
PROMPT = (5, 6, 7, 8, 9, 5, 6, 7)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_target("llama", VOCAB, memory=0.01), "plain", [2])


def run(engine: Engine, params: SamplingParams, drafter: str | Drafter, **options: object) -> tuple[Sequence, list]:
    sequence = engine.start(PROMPT, params, drafter=drafter, **options)  # type: ignore[arg-type]
    steps = [engine.prefill(sequence)]
    while not sequence.finished:
        steps += engine.step([sequence])
    return sequence, steps


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_follows_its_grammar_and_ends_with_it(engine: Engine, temperature: float) -> None:
    grammar = WalkGrammar(VOCAB)
    for seed in range(8):
        params = SamplingParams(max_tokens=60, temperature=temperature, seed=seed, grammar=grammar, ignore_eos=True)
        free, _ = run(engine, SamplingParams(max_tokens=60, ignore_eos=True), "plain")
        expected, _ = run(engine, params, "plain")
        assert not grammar.follows(free.tokens)
        assert grammar.follows(expected.tokens, complete=True)
        assert expected.finish_reason == "stop"
        for drafter in (AdversarialDrafter(expected.tokens, VOCAB, seed), RandomDrafter(seed, VOCAB)):
            got, _ = run(engine, params, drafter)
            assert got.tokens == expected.tokens
            assert got.finish_reason == "stop"


def test_drafts_are_accepted_along_a_grammar(engine: Engine) -> None:
    params = SamplingParams(max_tokens=40, grammar=WalkGrammar(VOCAB, 30), ignore_eos=True)
    expected, _ = run(engine, params, "plain")
    accepted = 0
    for seed in range(5):
        accepted += run(engine, params, AdversarialDrafter(expected.tokens, VOCAB, seed))[0].stats.accepted
    assert accepted > 10


def test_an_answer_goes_on_in_the_middle_of_its_grammar(engine: Engine) -> None:
    params = SamplingParams(max_tokens=60, temperature=1.0, seed=3, grammar=WalkGrammar(VOCAB), ignore_eos=True)
    whole, _ = run(engine, params, "plain")
    for done in range(1, len(whole.tokens)):
        assert run(engine, params, "pld", resumed=whole.tokens[:done])[0].tokens == whole.tokens


def test_looking_ahead_leaves_the_state_alone() -> None:
    history = History([1], WalkGrammar(VOCAB).begin())
    assert history.grammar is not None
    before = history.grammar.allowed().tolist()
    ahead = history.copy()
    token = int(np.flatnonzero(history.grammar.allowed())[0])
    ahead.push(token)
    assert ahead.grammar is not None
    assert ahead.grammar.allowed().tolist() != before
    assert history.grammar.allowed().tolist() == before


def test_biases_cannot_leave_the_grammar() -> None:
    grammar = WalkGrammar(VOCAB)
    allowed = grammar.begin().allowed()
    logits = torch.arange(VOCAB, dtype=torch.float64)
    params = SamplingParams(
        grammar=grammar, logit_bias={int(token): float("-inf") for token in np.flatnonzero(allowed)}
    )
    for temperature in (0.0, 0.7):
        chosen = SamplingParams(grammar=grammar, logit_bias=params.logit_bias, temperature=temperature)
        assert allowed[select(logits, chosen, 3, History([1], grammar.begin()))]
    assert select(logits, params, 3, History([1], grammar.begin())) == np.flatnonzero(allowed)[-1]


def test_logprobs_are_those_of_the_raw_logits_whatever_is_drafted(engine: Engine) -> None:
    params = SamplingParams(max_tokens=24, temperature=0.8, seed=2, logit_bias={5: 4.0}, ignore_eos=True, logprobs=3)
    plain, steps = run(engine, params, "plain")
    expected = [measured for step in steps for measured in step.logprobs]
    assert len(expected) == len(plain.tokens) == 24
    given = engine.target.prefill(list(PROMPT), engine.target.new_cache(40)).logits[-1]
    first = torch.log_softmax(given.double(), -1)
    assert expected[0].logprob == pytest.approx(float(first[plain.tokens[0]]))
    assert [token for token, _ in expected[0].top] == first.topk(3).indices.tolist()
    drafted, steps = run(engine, params, AdversarialDrafter(plain.tokens, VOCAB, 1))
    got = [measured for step in steps for measured in step.logprobs]
    assert drafted.stats.accepted > 0
    assert drafted.tokens == plain.tokens
    assert [one.logprob for one in got] == pytest.approx([one.logprob for one in expected])
    assert [[token for token, _ in one.top] for one in got] == [[t for t, _ in one.top] for one in expected]


def test_nothing_is_measured_unless_asked_for(engine: Engine) -> None:
    _, steps = run(engine, SamplingParams(max_tokens=4), "plain")
    assert not any(step.logprobs for step in steps)
    with pytest.raises(ValueError, match="logprobs"):
        SamplingParams(logprobs=21)
