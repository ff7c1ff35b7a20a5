"""Answers that begin on the rows of others, or go on where another engine stopped, say what they say anyway (float64).

Conversations of turns whose prompts repeat the turns before, edited and cut ones too, with drafters that change from
turn to turn, as sessions have them.
"""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import Any

import pytest

from decoder import Engine, Prefix, RepetitionStop, SamplingParams, Sequence
from decoder.drafters.context import DrafterContext
from decoder.drafters.pld_plus import PldPlusDrafter
from decoder.model.forward_outputs import RequiredOutputs
from tests.support.tiny_models import ARCHITECTURES, knowing_adapters, tiny_eagle, tiny_target

VOCAB = 61
MAX_TOKENS = 24
DRAFTERS = (
    "plain",
    "pld",
    "copyspec",
    "casd",
    "pld_plus",
    "pld_plus_a",
    "logitspec",
    "recycling",
    "lookahead",
    "small_model",
    "casd+small_model",
    "eagle",
    "casd+eagle",
    "sdsat",
    "sdsat_two_step",
    "auto",
)
MODES = {
    "greedy": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True),
    "penalties": SamplingParams(max_tokens=MAX_TOKENS, repetition_penalty=1.2, frequency_penalty=0.2),
    "sampled": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, top_p=0.9, seed=3, stop=("ab", "q")),
    "strict": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, exact="strict"),
    "repetition": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, repetition=RepetitionStop(5, 2)),
}


def letters(ids: Any) -> str:
    return "".join(chr(97 + token % 26) for token in ids)


@functools.cache
def engine(
    architecture: str = "llama", memory: float = 0.01, near_tie: float | None = 0.3, adapted: bool = True
) -> Engine:
    target = tiny_target(architecture, VOCAB, memory=memory)
    if adapted:
        target.adapters = knowing_adapters(target)
    context = DrafterContext(
        draft_model=tiny_target(architecture, VOCAB, memory=0.0),
        eagle_head=tiny_eagle(target, draft_vocab=50),
        induction_heads=((0, 1), (1, 3)),
    )
    return Engine(target, "plain", [2], letters, context, near_tie=near_tie)


def run(engine: Engine, prompt: list[int], mode: str, drafter: str = "plain", **options: Any) -> Sequence:
    chosen: Any = PldPlusDrafter("a") if drafter == "pld_plus_a" else drafter
    sequence = engine.start(prompt, MODES[mode], drafter=chosen, **options)
    while not sequence.finished:
        engine.step([sequence])
    return sequence


def left(sequence: Sequence) -> Prefix:
    prefix = sequence.detach_prefix()
    assert prefix is not None
    return prefix


@functools.cache
def first_prompt() -> tuple[int, ...]:
    source = random.Random(5)
    run = [source.randrange(3, VOCAB) for _ in range(12)]
    return (*run, *(source.randrange(3, VOCAB) for _ in range(20)), *run[:7])


def follow_ups(prompt: list[int], answer: list[int], source: random.Random) -> list[list[int]]:
    """A question more, another end of the answer, a passage less, the same again, something else, and a beginning."""
    more = [source.randrange(3, VOCAB) for _ in range(source.randint(1, 9))]
    place = source.randrange(1, len(prompt))
    return [
        [*prompt, *answer, *more],
        [*prompt, *answer[: len(answer) // 2], *more],
        [*prompt[:place], *prompt[place + 3 :], *answer, *more],
        list(prompt),
        [*more, *prompt],
        list(prompt[:place]),
    ]


@functools.cache
def plain(architecture: str, memory: float, prompt: tuple[int, ...], mode: str) -> Sequence:
    return run(engine(architecture, memory), list(prompt), mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_texts_are_those_without_reuse(drafter: str, mode: str) -> None:
    for memory in (1.0, 0.01):
        # Each case takes one of the architectures and half of the follow-ups; together they take all.
        number = DRAFTERS.index(drafter) + list(MODES).index(mode) + int(memory)
        architecture = ARCHITECTURES[number % 2]
        shared = engine(architecture, memory)
        source = random.Random(list(MODES).index(mode))
        first = run(shared, list(first_prompt()), mode, drafter, keep=True)
        given = left(first)
        assert first.tokens == plain(architecture, memory, first_prompt(), mode).tokens
        for prompt in follow_ups(first.prompt, first.tokens, source)[number // 2 % 2 :: 2]:
            length = given.usable(prompt, RequiredOutputs())
            assert length == min(given.common(prompt), len(prompt) - 1)
            got = run(shared, prompt, mode, drafter, reuse=given.copy(len(given)), keep=True)
            assert got.tokens == plain(architecture, memory, tuple(prompt), mode).tokens
            assert got.stats.cached_tokens == length
            assert got.cache.length == len(prompt) + len(got.tokens) - 1
            again = left(got)
            assert again.ids.tolist() == (prompt + got.tokens)[:-1]


def test_a_follow_up_prefills_what_is_new_alone() -> None:
    shared = engine()
    first = run(shared, list(first_prompt()), "greedy", keep=True)
    prompt = [*first.prompt, *first.tokens, 5, 6]
    passes: list[int] = []

    class Counted(Engine):
        def _account(self, parts: Any, *times: float) -> None:
            passes.append(sum(len(part.ids) for _, part in parts if hasattr(part, "ids")))

    counting = Counted(shared.target, "plain", [2], letters, shared.context)
    got = run(counting, prompt, "greedy", reuse=left(first))
    assert got.stats.cached_tokens == len(prompt) - 3
    assert passes[0] == 3  # the answer's last token was never run
    assert sum(passes) == 3


@pytest.mark.parametrize("memory", [1.0, 0.01])
def test_drafters_may_change_from_turn_to_turn(memory: float) -> None:
    """Rows that one drafter did not ask for run again for the next one that does."""
    shared, source = engine("llama", memory), random.Random(9)
    prompt, prefix = list(first_prompt()), None
    reused = 0
    for turn in range(12):
        drafter = source.choice(DRAFTERS)
        got = run(shared, prompt, "greedy", drafter, reuse=prefix, keep=True)
        assert got.tokens == run(shared, prompt, "greedy").tokens
        reused += got.stats.cached_tokens
        prefix = left(got)
        assert all(len(rows) <= len(prefix) for rows in prefix.states.values())
        prompt = source.choice(follow_ups(got.prompt, got.tokens, source))[-160:] if turn % 6 else list(first_prompt())
    assert reused > 100


@pytest.mark.parametrize(("drafts", "features"), [("masks", False), ("head", True)])
def test_rows_of_artifacts_are_those_of_a_pass_over_the_same_tokens(drafts: str, features: bool) -> None:
    """`auto` drafts with masks where a model has adapters, and reads features only for a head."""
    shared = engine("llama", 1.0, adapted=drafts == "masks")
    given = None
    prompt = list(first_prompt())
    for _ in range(3):
        got = run(shared, prompt, "greedy", "auto", reuse=given, keep=True)
        given = left(got)
        required_outputs = got.drafter.required_outputs
        true = shared.target.prefill(given.ids.tolist(), shared.target.new_cache(len(given)), required_outputs)
        assert given.states
        assert required_outputs.features is features
        assert set(given.states) == {*required_outputs.hidden, *([-1] if features else [])}
        for layer, rows in given.states.items():
            expected = true.hidden[layer] if layer >= 0 else true.features
            assert expected is not None
            assert rows.shape == expected.shape
            assert float((rows - expected).abs().max()) < 1e-9
        prompt = [*got.prompt, *got.tokens, 7, 8, 9]
        given = given.copy(len(given))


def test_a_prefix_is_used_up() -> None:
    """Two answers on one cache would write each other's rows."""
    shared = engine()
    prefix = left(run(shared, list(first_prompt()), "greedy", keep=True))
    shared.start([0], reuse=prefix)  # shares nothing, so takes nothing
    with pytest.raises(ValueError, match="resume it"):  # refused, so the rows are there for another try
        shared.start([*first_prompt(), 5], SamplingParams(max_tokens=1), resumed=[7, 8], reuse=prefix)
    shared.start([*first_prompt(), 5], reuse=prefix)
    with pytest.raises(ValueError, match="its own copy"):
        shared.start([*first_prompt(), 6], reuse=prefix)


def test_a_drafter_that_reads_every_row_has_them_all() -> None:
    """After an answer without drafting `eagle` drafts again, and after its own turn nothing runs twice."""
    shared = engine()
    first = run(shared, list(first_prompt()), "greedy", "plain", keep=True)
    prompt = [*first.prompt, *first.tokens, 5]
    second = run(shared, prompt, "greedy", "eagle", reuse=left(first), keep=True)
    assert second.stats.cached_tokens == 0
    assert second.stats.drafted > 0
    prompt = [*second.prompt, *second.tokens, 5]
    third = run(shared, prompt, "greedy", "eagle", reuse=left(second), keep=True)
    assert third.stats.cached_tokens == len(prompt) - 2
    assert third.stats.drafted > 0
    fourth = run(shared, [*third.prompt, *third.tokens], "greedy", "plain", reuse=left(third))
    assert fourth.stats.cached_tokens == len(third.prompt) + len(third.tokens) - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_an_answer_goes_on_where_another_engine_stopped(drafter: str, mode: str) -> None:
    shared = engine("llama", 0.01 if drafter in ("pld", "casd", "auto") else 1.0)
    prompt = list(first_prompt())
    expected = run(shared, prompt, mode)
    prefix = left(run(shared, prompt, mode, drafter, keep=True))
    end = len(expected.tokens)
    for size in {0, 1, 3 + DRAFTERS.index(drafter) % max(end - 4, 1), end - 1, end}:
        reuse = prefix.copy(random.Random(size).randint(1, len(prefix))) if size % 2 else None
        got = run(shared, prompt, mode, drafter, resumed=expected.tokens[:size], reuse=reuse)
        assert got.tokens == expected.tokens
        assert got.finish_reason == expected.finish_reason
        assert got.stats.resumed_tokens == size
        assert got.stats.tokens == len(expected.tokens) - size


def test_an_answer_that_was_complete_runs_no_pass() -> None:
    shared = engine()
    expected = run(shared, list(first_prompt()), "greedy")
    sequence = shared.start(list(first_prompt()), MODES["greedy"], resumed=expected.tokens)
    assert sequence.finished
    (step,) = shared.step([sequence])
    assert (step.tokens, step.finish_reason) == ((), "length")
    assert sequence.detach_prefix() is None
    shorter = replace(MODES["greedy"], max_tokens=len(expected.tokens) - 1)
    with pytest.raises(ValueError, match="resume it with fewer"):
        shared.start(list(first_prompt()), shorter, resumed=expected.tokens)


def test_nothing_is_left_behind_unasked_or_twice() -> None:
    shared = engine()
    unasked = run(shared, list(first_prompt()), "greedy")
    assert unasked.detach_prefix() is None
    sequence = shared.start(list(first_prompt()), MODES["greedy"], keep=True)
    assert sequence.detach_prefix() is None, "its prompt is not through"
    asked = run(shared, list(first_prompt()), "greedy", keep=True)
    prefix = left(asked)
    assert asked.detach_prefix() is None
    with pytest.raises(ValueError, match="length must be 1 to"):
        prefix.copy(len(prefix) + 1)
    with pytest.raises(ValueError, match="one row per token"):
        Prefix([1], prefix.cache, {})


def test_rows_of_other_tokens_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: a prefix that keeps one row too many gives other texts."""
    right = Prefix.usable
    monkeypatch.setattr(
        Prefix, "usable", lambda self, ids, required_outputs: min(right(self, ids, required_outputs) + 1, len(self))
    )
    shared = engine("llama", 1.0)
    wrong = 0
    for turn in range(8):
        first = run(shared, list(first_prompt()), "greedy", keep=True)
        prompt = [*first.prompt[: 10 + turn], 3 + turn, *first.prompt[11 + turn :]]
        wrong += run(shared, prompt, "greedy", reuse=left(first)).tokens != run(shared, prompt, "greedy").tokens
    assert wrong > 0
