"""Rows of all answers read at once, as on a GPU, against each row read in full."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from decoder import Engine, SamplingParams
from decoder import engine as engine_module
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.sampling import noise
from decoder.sampling.best_tokens import BestTokens
from decoder.sampling.history import History
from decoder.sampling.select import oracle, select
from decoder.sequence import PromptSegment, Sequence
from decoder.verify import read_rows, verify
from tests.support.tiny_models import DEVICE, AdversarialDrafter, tiny_target

VOCAB = 6000
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9},
    {"temperature": 0.6, "top_k": 20, "top_p": 0.8},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 2.0, "min_p": 0.05, "repetition_penalty": 1.2},
    {"temperature": 1.0, "top_p": 0.7, "repetition_penalty": 0.8, "logit_bias": {5999: 9.0, 3: -4.0}},
    {"temperature": 0.0, "frequency_penalty": 2.0},
    {"temperature": 1.0, "top_k": 200},
    {"temperature": 1.0, "exact": "strict"},
]


def answer(seed: int, **options: Any) -> Sequence:
    prompt = [1, 2, 3, 40 + seed]
    return Sequence(prompt, SamplingParams(seed=seed, **options), [PromptSegment("prompt", 4)], None, frozenset())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_every_row_is_chosen_as_the_oracle_chooses_it(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(3)
    answers = [answer(seed, **options) for seed, options in enumerate(SETTINGS)]
    logits = [(torch.randn(7 + n, VOCAB, generator=random) * 3).to(DEVICE, dtype) for n in range(len(answers))]
    for one, rows, readings in zip(answers, logits, read_rows(logits, answers), strict=True):
        for number, row in enumerate(rows):
            expected = oracle(row, one.params, 4 + number, one.history)
            if readings is None:
                assert one.params.exact == "strict"
            elif one.params.plain_greedy:
                assert readings[number] == expected
            else:
                best = readings[number]
                assert isinstance(best, BestTokens)
                assert len(best.tokens) < VOCAB
                assert select(row, one.params, 4 + number, one.history, best) == expected


def test_of_equal_logits_the_first_token_wins() -> None:
    logits = torch.randint(0, 4, (40, 17), generator=torch.Generator().manual_seed(1)).float().to(DEVICE)
    answers = [answer(0) for _ in range(3)]
    one_by_one = [select(row, SamplingParams(), 9, History([1, 2])) for row in logits]
    parts = read_rows([logits[:7], logits[7:8], logits[8:]], answers)
    assert parts == [one_by_one[:7], one_by_one[7:8], one_by_one[8:]]


def test_a_walk_over_rows_read_before_is_the_same_walk() -> None:
    logits = (torch.randn(9, VOCAB, generator=torch.Generator().manual_seed(8)) * 3).to(DEVICE)
    for options in SETTINGS:
        plain, read = (answer(5, **options) for _ in range(2))
        chain: list[int] = []
        for _ in range(8):  # a draft that is right: each token as the walk so far chooses it
            tree = DraftTree.chain(chain, [TokenSource("test")] * len(chain))
            chain = verify(tree, logits, answer(5, **options)).tokens
        tree = DraftTree.chain(chain, [TokenSource("test")] * 8)
        expected = verify(tree, logits, plain)
        assert len(expected.tokens) == 9
        assert verify(tree, logits, read, readings=read_rows([logits], [read])[0]) == expected


def test_answers_are_the_same_if_their_rows_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine as it runs on a GPU, several answers a step and drafts that are right or wrong."""
    engine = Engine(tiny_target("llama", 6000, seed=4), "plain")

    def answers() -> list[list[int]]:
        started = [
            engine.start(
                [3, 4, 5],
                SamplingParams(seed=n, max_tokens=10, ignore_eos=True, **options),
                drafter=AdversarialDrafter(list(range(10)), 6000, n),
            )
            for n, options in enumerate(SETTINGS)
        ]
        while any(not one.finished for one in started):
            engine.step([one for one in started if not one.finished])
        return [list(one.tokens) for one in started]

    expected = answers()
    calls = itertools.count()
    monkeypatch.setattr(
        engine_module, "read_ahead", lambda logits, answers: (next(calls), read_rows(logits, answers))[1]
    )
    assert answers() == expected
    assert next(calls)


@pytest.mark.parametrize("options", [{"temperature": 0.9}, {"temperature": 0.9, "top_k": 3}])
def test_a_token_drawn_from_all_reads_the_noise_drawn_during_the_pass(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(tiny_target("llama", 6000, seed=4), "plain")
    sequence = engine.start([3, 4, 5], SamplingParams(seed=77, max_tokens=9, **options))
    drawn: list[int] = []
    synchronize = engine.target.synchronize

    def at_the_end_of_the_pass() -> None:
        synchronize()
        drawn.append(noise.stream.cache_info().misses)

    monkeypatch.setattr(engine.target, "synchronize", at_the_end_of_the_pass)
    noise.stream.cache_clear()
    while not sequence.finished:
        engine.step([sequence])
    every = list(range(1, len(drawn) + 1)) if len(options) == 1 else [0] * len(drawn)
    assert drawn == every
    assert noise.stream.cache_info().misses == every[-1]
