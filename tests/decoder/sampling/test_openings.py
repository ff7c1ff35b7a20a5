"""Openings: what an answer must not begin with, whatever is drafted, and what may come later."""

from __future__ import annotations

import math

import pytest

from decoder import Engine, SamplingParams, Sequence
from decoder.drafters.base import Drafter
from decoder.sampling.history import History
from decoder.sampling.params import Exact
from decoder.sampling.select import select
from decoder.verify import read_rows
from tests.support.tiny_models import AdversarialDrafter, tiny_target

VOCAB = 61
PROMPT = (5, 6, 7, 8, 9, 5, 6, 7)
EVEN = tuple((token,) for token in range(0, VOCAB, 2))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_target("llama", VOCAB, memory=0.01), "plain", [2])


def run(engine: Engine, params: SamplingParams, drafter: str | Drafter = "plain", **options: object) -> Sequence:
    sequence = engine.start(PROMPT, params, drafter=drafter, **options)  # type: ignore[arg-type]
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return sequence


def answer(engine: Engine, *begun: int, **options: object) -> list[int]:
    params = SamplingParams(max_tokens=20, ignore_eos=True, **options)  # type: ignore[arg-type]
    return run(engine, params, resumed=begun).tokens


def test_behind_its_first_token_an_answer_is_free(engine: Engine) -> None:
    only = tuple((token,) for token in range(VOCAB) if token != 9)
    assert answer(engine)[0] != 9
    assert answer(engine, openings=only) == answer(engine, 9)


def test_an_opening_of_two_tokens_forbids_the_second_behind_the_first(engine: Engine) -> None:
    free = answer(engine)
    kept = answer(engine, openings=(tuple(free[:2]), (free[0] + 1, free[1])))
    assert kept[0] == free[0]
    assert kept[1] != free[1]
    assert kept == answer(engine, *kept[:2])
    other = answer(engine, free[0] + 1)
    assert answer(engine, free[0] + 1, openings=((free[0], other[1]),)) == other, "it began otherwise"


def test_an_opening_counts_from_the_answers_beginning_when_it_goes_on(engine: Engine) -> None:
    whole = answer(engine, 11)
    assert answer(engine, 11, openings=((whole[1],),)) == whole
    assert answer(engine, 11, openings=((11, whole[1]),))[1] != whole[1]


@pytest.mark.parametrize("exact", ["default", "strict"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_drafts_change_nothing(engine: Engine, temperature: float, exact: Exact) -> None:
    openings = (*EVEN, *((one, other) for one in range(VOCAB) for (other,) in EVEN))
    for seed in range(6):
        params = SamplingParams(
            max_tokens=30, temperature=temperature, seed=seed, ignore_eos=True, openings=openings, exact=exact
        )
        expected = run(engine, params).tokens
        assert [token % 2 for token in expected[:2]] == [1, 1]
        assert {token % 2 for token in expected} == {0, 1}
        assert run(engine, params, AdversarialDrafter(expected, VOCAB, seed)).tokens == expected
        assert run(engine, params, "casd").tokens == expected


def test_the_choice_is_plain_behind_the_longest_opening(engine: Engine) -> None:
    """Rows that are read before the walk, as on a GPU, may lie on both sides of its end."""
    sequence = engine.start(PROMPT, SamplingParams(max_tokens=9, ignore_eos=True, openings=((1, 2), (3,))))
    logits = engine.target.prefill(list(PROMPT), engine.target.new_cache(len(PROMPT) + 1)).logits
    plain = []
    while not sequence.finished:
        rows = read_rows([logits], [sequence])[0]
        plain.append((sequence.params.plain_greedy, rows is not None and isinstance(rows[0], int)))
        engine.step([sequence])
    assert plain == [(False, False)] * 2 + [(True, True)] * 7


def test_what_is_forbidden_is_part_of_the_choice() -> None:
    params = SamplingParams(logit_bias={4: 2.0}, openings=((4,), (7, 8), (7, 9), (1, 2, 3)))
    assert params.behind([]).logit_bias == {4: -math.inf}
    assert params.behind([7]).logit_bias == {4: 2.0, 8: -math.inf, 9: -math.inf}
    assert params.behind([1]) == params
    assert params.behind([1, 2]).logit_bias == {4: 2.0, 3: -math.inf}
    assert params.behind([1, 2, 3]) == SamplingParams(logit_bias={4: 2.0})


def test_the_first_token_is_what_select_picks(engine: Engine) -> None:
    params = SamplingParams(temperature=0.8, seed=3, openings=EVEN)
    sequence = engine.start(PROMPT, params)
    logits = engine.target.prefill(list(PROMPT), engine.target.new_cache(len(PROMPT) + 1)).logits[-1]
    engine.prefill(sequence)
    assert sequence.tokens == [select(logits, params.behind([]), len(PROMPT), History(PROMPT))]
