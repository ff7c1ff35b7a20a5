"""`select`'s short way against the oracle, which reads the whole vocabulary in float64."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.sampling import contenders, noise
from decoder.sampling.best_tokens import best_tokens, weight_error
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.processors import penalise
from decoder.sampling.select import oracle, select, warp

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SETTINGS: dict[str, dict[str, float]] = {
    "temperature": {},
    "top_k": {"top_k": 5},
    "large top_k": {"top_k": 60},
    "top_p": {"top_p": 0.9},
    "narrow top_p": {"top_p": 0.05},
    "wide top_p": {"top_p": 0.999},
    "min_p": {"min_p": 0.05},
    "low min_p": {"min_p": 1e-6},
    "top_k and top_p": {"top_k": 20, "top_p": 0.8},
    "all": {"top_k": 40, "top_p": 0.95, "min_p": 0.02},
}
PENALTIES: dict[str, dict[str, object]] = {
    "none": {},
    "repetition": {"repetition_penalty": 1.2},
    "frequency": {"presence_penalty": 0.3, "frequency_penalty": 0.2},
    "bias": {"logit_bias": {3: 4.0, 9: -float("inf"), 700: 0.1}},
    "all": {"repetition_penalty": 0.7, "frequency_penalty": -0.4, "logit_bias": {0: -1.0}},
}
VOCAB = 8195
"""No whole number of blocks or of Philox's counters."""


def rows(spread: float, shape: str, seed: int) -> torch.Tensor:
    random = np.random.default_rng(seed)
    logits = random.normal(0.0, 1.0, VOCAB) * spread
    if shape == "ties":
        logits = np.round(logits, 1)
    elif shape == "near ties":  # differences below float32's resolution, around a large number
        logits = np.round(logits, 1) + 30.0 + random.integers(-2, 3, VOCAB) * 1e-7
    elif shape == "forbidden":
        logits[random.random(VOCAB) < 0.9] = -np.inf
    elif shape == "peak":
        logits[random.integers(VOCAB)] = 8 * spread
    elif shape == "equal":
        logits[:] = spread
    return torch.from_numpy(logits)


def history() -> History:
    one = History([1, 2, 3, 500, 4000])
    for token in (7, 7, 7, 3, 4098):
        one.push(token)
    return one


@pytest.mark.parametrize("shape", ["smooth", "ties", "near ties", "forbidden", "peak", "equal"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kept", SETTINGS)
def test_the_choice_is_the_oracles(kept: str, penalty: str, shape: str) -> None:
    cases = itertools.product((0.5, 3.0, 12.0), (0.02, 0.7, 1.0, 3.0), DTYPES)
    for number, (spread, temperature, dtype) in enumerate(cases):
        logits = rows(spread, shape, number).to(dtype)
        params = SamplingParams(temperature=temperature, seed=number, **SETTINGS[kept], **PENALTIES[penalty])  # type: ignore[arg-type]
        expected = oracle(logits, params, 9 + number, history())
        assert select(logits, params, 9 + number, history()) == expected, (spread, temperature, dtype)


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 2**32),
    st.sampled_from(DTYPES),
    st.floats(0.01, 40.0),
    st.floats(0.0, 1e3),
    st.integers(0, 80),
    st.floats(0.01, 1.0),
    st.floats(0.0, 0.99),
    st.floats(0.2, 3.0),
    st.integers(0, 4),
)
def test_the_choice_is_the_oracles_at_any_setting(
    seed: int,
    dtype: torch.dtype,
    spread: float,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition: float,
    decimals: int,
) -> None:
    logits = torch.from_numpy(np.round(np.random.default_rng(seed).normal(0, spread, 1031), decimals)).to(dtype)
    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition, seed=seed
    )
    past = History([5, 6, 7, 1030])
    assert select(logits, params, seed % 1000, past) == oracle(logits, params, seed % 1000, past)


@pytest.mark.parametrize("kept", SETTINGS)
def test_most_choices_need_no_oracle(kept: str) -> None:
    """At a vocabulary and a spread as models have them."""
    decided = 0
    for seed in range(40):
        logits = torch.randn(49_152, generator=torch.Generator().manual_seed(seed)) * 3.0
        logits[seed] = 20.0
        params = SamplingParams(temperature=0.8, seed=seed, **SETTINGS[kept])  # type: ignore[arg-type]
        token = contenders.choice(logits, params, seed, History([]))
        assert token in (None, oracle(logits, params, seed, History([])))
        decided += token is not None
    assert decided >= 36


@pytest.mark.parametrize("kept", SETTINGS)
def test_without_the_bound_of_the_others_some_choices_are_wrong(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the other tokens were impossible, the best ones would decide everything."""
    read = contenders.best_tokens
    monkeypatch.setattr(
        contenders,
        "best_tokens",
        lambda *arguments: [replace(one, bound=-np.inf, others=0.0) for one in read(*arguments)],
    )
    logits = torch.zeros(VOCAB)
    logits[[40, 4000, 8000]] = 10.0
    params = [SamplingParams(temperature=10.0, seed=seed, **SETTINGS[kept]) for seed in range(60)]  # type: ignore[arg-type]
    chosen = [contenders.choice(logits, one, 3, History([])) for one in params]
    assert set(chosen) <= {40, 4000, 8000}
    assert chosen != [oracle(logits, one, 3, History([])) for one in params]


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 2**32),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 63, 64, 65, 4160, 4161, 4223, 4224, 9000]),
    st.sampled_from([1, 5, 64]),
    st.integers(0, 3),
    st.floats(0.1, 3.0),
)
def test_no_other_token_is_better_than_the_bound(
    seed: int, dtype: torch.dtype, vocab: int, blocks: int, decimals: int, temperature: float
) -> None:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(np.round(random.normal(0, 3, (3, vocab)), decimals)).to(dtype)
    logits[0, random.random(vocab) < 0.9] = -torch.inf
    for row, best in zip(logits, best_tokens(logits, [temperature] * 3, blocks), strict=True):
        values = row.double().numpy()
        assert np.array_equal(best.tokens, np.flatnonzero(values > best.bound))
        assert np.array_equal(best.logits, values[best.tokens])
        assert best.greatest == values.max()
        if vocab > 64 * (blocks + 1):
            assert len(best.tokens) < 64 * (blocks + 1)
        if np.isfinite(best.greatest):
            others = np.exp((values[values <= best.bound] - best.greatest) / temperature).sum()
            error = weight_error(abs(best.greatest) / temperature)
            assert best.others == pytest.approx(others, rel=error, abs=vocab * 1e-37)


def test_a_token_of_little_weight_wins_where_its_noise_is_the_greatest() -> None:
    """Ten thousand tokens of a thousandth of the leader's weight win most of the time; all by the oracle's choice."""
    logits = torch.zeros(10_000)
    logits[17] = 7.0
    params = [SamplingParams(temperature=1.0, seed=seed) for seed in range(60)]
    chosen = [contenders.choice(logits, one, 4, History([])) for one in params]
    assert chosen == [oracle(logits, one, 4, History([])) for one in params]
    assert len(set(chosen)) > 30


@pytest.mark.parametrize("vocab", [800, VOCAB])
def test_scores_that_are_no_numbers_are_left_to_the_oracle(vocab: int) -> None:
    params = SamplingParams(temperature=1.0)
    for value in (float("nan"), float("inf")):
        for place in (0, vocab // 2, vocab - 1):
            logits = torch.zeros(vocab)
            logits[place] = value
            assert contenders.choice(logits, params, 0, History([])) is None
    assert contenders.choice(torch.full((vocab,), -torch.inf), params, 0, History([])) is None


@pytest.mark.parametrize("kept", SETTINGS)
@pytest.mark.parametrize("temperature", [1e-300, 1e-6, 2.0, 1e6, 1e300])
def test_the_choice_is_the_oracles_at_extreme_temperatures(kept: str, temperature: float) -> None:
    for seed, shape in enumerate(("smooth", "ties", "near ties", "forbidden", "equal")):
        params = SamplingParams(temperature=temperature, seed=seed, **SETTINGS[kept])  # type: ignore[arg-type]
        for dtype, scale in ((torch.float32, 1.0), (torch.float64, 1e300), (torch.float64, 1e-300)):
            logits = (rows(3.0, shape, seed) * scale).to(dtype)
            assert select(logits, params, 5, history()) == oracle(logits, params, 5, history()), (shape, dtype, scale)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_greedy_choices_with_penalties_are_the_oracles(penalty: str) -> None:
    for seed, shape in enumerate(("smooth", "ties", "near ties", "forbidden", "peak", "equal")):
        params = SamplingParams(**PENALTIES[penalty])  # type: ignore[arg-type]
        logits = rows(3.0, shape, seed)
        assert select(logits, params, 5, history()) == oracle(logits, params, 5, history()), shape


def test_a_bias_lifts_the_worst_token_to_the_top() -> None:
    logits = rows(3.0, "smooth", 1)
    worst = int(logits.argmin())
    for options in SETTINGS.values():
        params = SamplingParams(temperature=0.5, logit_bias={worst: 60.0}, **options)  # type: ignore[arg-type]
        assert contenders.choice(logits, params, 3, History([])) == worst


def test_penalties_that_lower_every_best_token_leave_the_choice_to_more_tokens() -> None:
    """4,000 tokens are at 9, and the others at 8 win once those are below."""
    logits = torch.full((40_000,), 8.0)
    logits[::10] = 9.0
    past = History(range(0, 40_000, 10))
    for options in SETTINGS.values():
        params = SamplingParams(temperature=0.5, repetition_penalty=3.0, **options)  # type: ignore[arg-type]
        for position in range(5):
            assert select(logits, params, position, past) == oracle(logits, params, position, past)


def test_numbers_are_the_same_alone_and_among_others() -> None:
    """The oracle's arithmetic on a few tokens gives what it gives on all, whatever instructions numpy takes."""
    values = np.random.default_rng(3).normal(0.0, 9.0, VOCAB)
    uniforms = noise.uniform(1, 0, 2, VOCAB)
    params = SamplingParams(temperature=0.7, repetition_penalty=1.3, frequency_penalty=0.1)
    penalised = penalise(values.copy(), np.arange(VOCAB), VOCAB, params, history())
    _, log_weights = warp(penalised, params)
    for count in (1, 2, 3, 5, 8, 13, 200):
        some = np.sort(np.random.default_rng(count).choice(VOCAB, count, replace=False))
        assert np.array_equal(noise.gumbel(uniforms)[some], noise.gumbel(uniforms[some]))
        assert np.array_equal(np.exp(log_weights)[some], np.exp(log_weights[some]))
        assert np.array_equal(log_weights[some], (penalised[some] - penalised.max()) / params.temperature)
