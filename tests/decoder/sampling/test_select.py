"""`select` against a slow reading of the rules, and sampling against exact probabilities."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import power_divergence

from decoder import Engine, Generation, SamplingParams
from decoder.sampling import noise
from decoder.sampling.history import History
from decoder.sampling.select import select, warp
from tests.support.tiny_models import AdversarialDrafter, RandomDrafter, tiny_target


def slow_weights(logits: list[float], params: SamplingParams, prompt: list[int], answer: list[int]) -> list[float]:
    """Probability of every token, rule by rule, with plain lists.

    Sums in another order than `select` has: amounts must be binary fractions, or equal scores differ by rounding.
    """
    scores = list(logits)
    for token in range(len(scores)):
        if token in prompt or token in answer:
            rate = params.repetition_penalty
            scores[token] = scores[token] / rate if scores[token] > 0 else scores[token] * rate
        count = answer.count(token)
        if count:
            scores[token] -= params.presence_penalty + params.frequency_penalty * count
        scores[token] += params.logit_bias.get(token, 0.0)
    ranked = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    if params.temperature == 0:
        return [float(token == ranked[0]) for token in range(len(scores))]
    scores = [score / params.temperature for score in scores]
    if params.top_k:
        ranked = ranked[: params.top_k]
    top = max(scores)
    weight = {token: math.exp(scores[token] - top) for token in ranked}
    total = sum(weight.values())
    mass, kept = 0.0, []
    for token in ranked:
        if mass < params.top_p * total or not kept:
            kept.append(token)
        mass += weight[token]
    kept = [token for token in kept if weight[token] >= params.min_p * weight[kept[0]]]
    total = sum(weight[token] for token in kept)
    return [weight[token] / total if token in kept else 0.0 for token in range(len(scores))]


def history_of(prompt: list[int], answer: list[int]) -> History:
    history = History(prompt)
    for token in answer:
        history.push(token)
    return history


@settings(max_examples=300, deadline=None)
@given(
    logits=st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0]), min_size=2, max_size=9),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    top_k=st.integers(0, 9),
    top_p=st.sampled_from([0.13, 0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 0.7]),
    repetition=st.sampled_from([1.0, 1.3, 0.8]),
    presence=st.sampled_from([0.0, 0.625]),
    frequency=st.sampled_from([0.0, 0.375]),
    prompt=st.lists(st.integers(0, 8), max_size=4),
    answer=st.lists(st.integers(0, 1), max_size=4),
    seed=st.integers(0, 2**64 - 1),
    position=st.integers(0, 10**6),
)
def test_select_is_the_argmax_of_log_probability_plus_keyed_noise(
    logits: list[float],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition: float,
    presence: float,
    frequency: float,
    prompt: list[int],
    answer: list[int],
    seed: int,
    position: int,
) -> None:
    params = SamplingParams(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition,
        presence_penalty=presence,
        frequency_penalty=frequency,
        logit_bias={1: 0.3125},
        seed=seed,
    )
    weights = slow_weights(logits, params, prompt, answer)
    uniforms = noise.uniform(seed, 0, position, len(logits))
    perturbed = [
        math.log(weight) - math.log(-math.log(u)) if weight > 0 else -math.inf
        for weight, u in zip(weights, uniforms, strict=True)
    ]
    expected = perturbed.index(max(perturbed))
    chosen = select(torch.tensor(logits, dtype=torch.float64), params, position, history_of(prompt, answer))
    assert chosen == expected


def test_ties_go_to_the_lowest_token() -> None:
    logits = torch.tensor([0.0, 2.0, 2.0, 2.0, 1.0])
    assert select(logits, SamplingParams(), 0, History([])) == 1
    only_two = SamplingParams(temperature=1.0, top_k=2, seed=1)
    drawn = {select(logits, only_two, position, History([])) for position in range(200)}
    assert drawn == {1, 2}


def test_a_vanishing_temperature_is_greedy() -> None:
    logits = torch.tensor([0.0, 2.0, 1.999, -5.0])
    cold = SamplingParams(temperature=1e-300, seed=3)
    assert all(select(logits, cold, position, History([])) == 1 for position in range(100))


def test_scores_without_bound_are_drawn_from() -> None:
    """A penalty of 1e-310 makes what was seen infinite."""
    logits = torch.tensor([0.5, 2.0, 1.999, -5.0])
    params = SamplingParams(temperature=1.0, repetition_penalty=1e-310, top_p=0.9)
    drawn = {select(logits, params, position, History([0, 2])) for position in range(100)}
    assert drawn == {0, 2}


def test_noise_depends_on_seed_choice_and_position_only() -> None:
    first = noise.uniform(7, 1, 30, 1000)
    assert np.array_equal(first, noise.uniform(7, 1, 30, 1000))
    assert np.array_equal(first[:10], noise.uniform(7, 1, 30, 10))
    for other in ((8, 1, 30), (7, 2, 30), (7, 1, 31)):
        assert not np.intersect1d(first, noise.uniform(*other, 1000)).size
    assert first.min() > 0.0
    assert first.max() < 1.0
    # The generator's published stream must never change: answers with a seed would change with it.
    assert noise.uniform(1, 0, 0, 2).tolist() == [0.30356803430675866, 0.848708749685777]
    assert noise.uniform(2**63, 5, 1000, 2).tolist() == [0.4426092959055897, 0.7435182929649091]


# -- sampling against exact enumeration -----------------------------------------------------------------------------

SMALL = 6
PROMPT = [3, 4, 5]
WARPERS = {
    "temperature": {"temperature": 1.5},
    "top_k": {"temperature": 2.0, "top_k": 3},
    "top_p": {"temperature": 2.0, "top_p": 0.8},
    "min_p": {"temperature": 2.5, "min_p": 0.15},
    "penalties": {"temperature": 2.0, "repetition_penalty": 1.3, "frequency_penalty": 0.7, "presence_penalty": 0.2},
}
DRAWS = 1200
TOGETHER = 60
"""Answers whose passes are shared, which takes a fraction of the time."""


def exact(engine: Engine, options: dict[str, float]) -> dict[tuple[int, int], float]:
    """Probability of every answer of two tokens."""
    params = SamplingParams(**options)  # type: ignore[arg-type]

    def row(ids: list[int]) -> list[float]:
        logits: list[float] = engine.target.prefill(ids, engine.target.new_cache(8)).logits[-1].tolist()
        return logits

    first = slow_weights(row(PROMPT), params, PROMPT, [])
    table = {}
    for a in range(SMALL):
        second = slow_weights(row([*PROMPT, a]), params, PROMPT, [a])
        table.update({(a, b): first[a] * second[b] for b in range(SMALL)})
    return table


def decode(engine: Engine, answers: list[Generation]) -> None:
    """All of them to their ends."""
    while running := [answer for answer in answers if not answer.finished]:
        engine.step(running)


def drawn(engine: Engine, options: dict[str, float]) -> Counter[tuple[int, ...]]:
    """Two tokens a seed, drafted by a drafter that is often right and often wrong."""
    counts: Counter[tuple[int, ...]] = Counter()
    for first in range(0, DRAWS, TOGETHER):
        answers = [
            engine.start(
                PROMPT,
                SamplingParams(max_tokens=2, seed=seed, ignore_eos=True, **options),  # type: ignore[arg-type]
                drafter=RandomDrafter(seed, SMALL, 6),
            )
            for seed in range(first, first + TOGETHER)
        ]
        decode(engine, answers)
        counts.update(tuple(answer.tokens) for answer in answers)
    return counts


def g_test(counts: Counter[tuple[int, ...]], table: dict[tuple[int, int], float]) -> float:
    """p-value; cells expected fewer than five times are pooled."""
    assert all(table[key] > 0 for key in counts), "a token was drawn that the warpers forbid"
    likely = [key for key in table if table[key] * DRAWS >= 5]
    observed = [counts[key] for key in likely]
    expected = [table[key] * DRAWS for key in likely]
    if DRAWS - sum(expected) > 1e-6:
        observed.append(DRAWS - sum(observed))
        expected.append(DRAWS - sum(expected))
    result: float = power_divergence(observed, expected, lambda_="log-likelihood").pvalue
    return result


@pytest.fixture(scope="module")
def small_engine() -> Engine:
    return Engine(tiny_target("llama", SMALL, seed=4), "plain")


@pytest.mark.parametrize("warper", WARPERS)
def test_sampling_follows_the_exact_distribution(warper: str, small_engine: Engine) -> None:
    assert g_test(drawn(small_engine, WARPERS[warper]), exact(small_engine, WARPERS[warper])) > 1e-3


@pytest.mark.parametrize("bug", ["position_ignored", "uniform_noise", "accepts_every_draft", "temperature_ignored"])
def test_seeded_bugs_fail_the_g_test(bug: str, small_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    options = WARPERS["temperature"]
    table = exact(small_engine, options)
    if bug == "position_ignored":
        stream = noise.stream
        monkeypatch.setattr(noise, "stream", lambda seed, choice, position, count: stream(seed, choice, 0, count))
    elif bug == "uniform_noise":
        monkeypatch.setattr(noise, "gumbel", lambda uniforms: uniforms)
    elif bug == "accepts_every_draft":
        monkeypatch.setattr("decoder.drafts.tree.DraftTree.child", lambda tree, node, token: _any_child(tree, node))
        monkeypatch.setattr("decoder.verify.select", _drafted_or_selected)
    else:
        options = {"temperature": 1.0}
    assert g_test(drawn(small_engine, options), table) < 1e-6


def _any_child(tree: object, node: int) -> int | None:
    return next((n for n, parent in enumerate(tree.parents) if parent == node), None)  # type: ignore[attr-defined]


def _drafted_or_selected(
    logits: torch.Tensor, params: SamplingParams, position: int, history: History, best: object
) -> int:
    """A verifier that takes a draft token half of the time, whatever the target says."""
    if params.seed % 2:
        return RandomDrafter(params.seed, SMALL)._random.randrange(SMALL)
    return select(logits, params, position, history)


def test_every_answer_is_the_same_with_and_without_drafts(small_engine: Engine) -> None:
    cases = [*itertools.product(range(40), WARPERS.items())]
    asked = [SamplingParams(max_tokens=12, seed=seed, **options) for seed, (_, options) in cases]  # type: ignore[arg-type]
    for first in range(0, len(asked), TOGETHER):
        part = asked[first : first + TOGETHER]
        plain = [small_engine.start(PROMPT, params) for params in part]
        decode(small_engine, plain)
        drafters = [AdversarialDrafter(one.tokens, SMALL, one.params.seed) for one in plain]
        drafted = [
            small_engine.start(PROMPT, params, drafter=drafter) for params, drafter in zip(part, drafters, strict=True)
        ]
        decode(small_engine, drafted)
        for (_, (name, _)), one, other in zip(cases[first:], plain, drafted, strict=False):
            assert other.tokens == one.tokens, name


@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 6.0])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.99])
def test_top_p_of_a_large_vocabulary_keeps_what_sorting_all_of_it_keeps(spread: float, top_p: float) -> None:
    """Also where thousands of tokens are kept and where many are equal."""
    logits = np.round(np.random.default_rng(5).normal(0.0, spread, 20_000), 2)
    tokens, _ = warp(logits, SamplingParams(temperature=1.0, top_p=top_p))
    order = np.argsort(-logits, kind="stable")
    mass = np.cumsum(np.exp(logits[order] - logits.max()))
    kept = int(np.searchsorted(mass, top_p * mass[-1])) + 1
    assert abs(len(tokens) - kept) <= 1  # the sum's last bit may fall on either side
    assert tokens.tolist() == sorted(order[: len(tokens)].tolist())
