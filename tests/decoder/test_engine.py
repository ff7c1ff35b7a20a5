"""Limits, stops, errors and counts of the engine."""

from __future__ import annotations

import itertools
import math

import pytest

from decoder import Corpus, DecoderError, Engine, PromptSegment, PromptTooLong, SamplingParams, TokenSource
from decoder.drafters import DRAFTERS, make_drafter
from decoder.drafters.pld import PldDrafter
from decoder.errors import EmptyPrompt, InvalidToken, UnknownDrafter
from decoder.sampling.stopping import StopStrings
from tests.support.tiny_models import AdversarialDrafter, tiny_target

PROMPT = [5, 6, 7, 8, 5, 6]


def letters(ids: object) -> str:
    return "".join(chr(97 + token % 26) for token in ids)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_target(memory=0.01), "plain", [2], letters)


def answer(engine: Engine, params: SamplingParams, drafter: object = None) -> list[int]:
    steps = engine.generate(PROMPT, params, drafter=drafter)  # type: ignore[arg-type]
    return [token for step in steps for token in step.tokens]


def test_a_limit_inside_an_accepted_run_cuts_it(engine: Engine) -> None:
    long = answer(engine, SamplingParams(max_tokens=40, ignore_eos=True))
    for size in range(1, 20):
        params = SamplingParams(max_tokens=size, ignore_eos=True)
        assert answer(engine, params, AdversarialDrafter(long, seed=size)) == long[:size]


def test_an_end_token_inside_an_accepted_run_ends_the_answer(engine: Engine) -> None:
    long = answer(engine, SamplingParams(max_tokens=40, ignore_eos=True))
    end = long[9]
    expected = long[: long.index(end) + 1]
    for seed in range(8):
        params = SamplingParams(max_tokens=40, ignore_eos=True, stop_token_ids=(end,))
        steps = list(engine.generate(PROMPT, params, drafter=AdversarialDrafter(long, seed=seed)))
        assert [t for step in steps for t in step.tokens] == expected
        assert steps[-1].finish_reason == "stop"


def test_a_stop_string_that_straddles_accepted_runs_ends_the_answer(engine: Engine) -> None:
    long = answer(engine, SamplingParams(max_tokens=40, ignore_eos=True))
    stop = letters(long[5:9])
    cut = letters(long).index(stop) + len(stop)
    for seed in range(8):
        params = SamplingParams(max_tokens=40, ignore_eos=True, stop=(stop,))
        assert answer(engine, params, AdversarialDrafter(long, seed=seed)) == long[:cut]


def test_stop_strings_are_found_behind_tokens_without_text() -> None:
    def detokenize(ids: object) -> str:
        return "".join("" if token == 0 else chr(96 + token) for token in ids)  # type: ignore[attr-defined]

    stops = StopStrings(["ab"], detokenize)
    tokens = [3, 1] + [0] * 200 + [2]
    completed = [size for size in range(1, len(tokens) + 1) if stops.completed_by_last(tokens[:size])]
    assert completed == [len(tokens)]


def test_cancelling_keeps_what_was_generated(engine: Engine) -> None:
    sequence = engine.start(PROMPT, SamplingParams(max_tokens=40, ignore_eos=True))
    engine.prefill(sequence)
    engine.step([sequence])
    sequence.cancel()
    assert engine.step([sequence])[0].finish_reason == "cancelled"
    assert len(sequence.tokens) == 2


def test_counts_add_up(engine: Engine) -> None:
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    sequence = engine.start(PROMPT, params, drafter="casd")
    steps = [engine.prefill(sequence)]
    while not sequence.finished:
        steps += engine.step([sequence])
    stats = sequence.stats
    assert stats.tokens == 40 == sum(len(step.tokens) for step in steps)
    assert stats.steps == len(steps) - 1
    assert stats.accepted == sum(source is not None for step in steps for source in step.sources)
    assert stats.by_source["casd"].drafted == stats.drafted >= stats.accepted > 0
    assert stats.mat == pytest.approx(39 / stats.steps)
    assert stats.plain_equivalent_steps == 39


def test_every_copied_token_names_the_place_it_was_copied_from(engine: Engine) -> None:
    segments = [PromptSegment("system", 2), PromptSegment("passage", 4, "p1")]
    sequence = engine.start(PROMPT, SamplingParams(max_tokens=60, ignore_eos=True), segments=segments, drafter="casd")
    engine.prefill(sequence)
    copied = 0
    while not sequence.finished:
        [step] = engine.step([sequence])
        for token, source in zip(step.tokens, step.sources, strict=True):
            if isinstance(source, TokenSource):
                run = [PROMPT[:2], PROMPT[2:]][source.segment] if source.segment is not None else sequence.tokens
                assert source.offset is not None
                assert run[source.offset] == token
                copied += 1
    assert copied > 10


def test_plain_indexes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("plain decoding built an index")

    monkeypatch.setattr("decoder.sequence.TokenIndex.build", refuse)
    answer(engine, SamplingParams(max_tokens=5), "off")
    with pytest.raises(AssertionError):
        answer(engine, SamplingParams(max_tokens=5), "casd")


def test_more_nodes_than_the_window_holds_take_no_memory(engine: Engine) -> None:
    sequence = engine.start(PROMPT, SamplingParams(max_tokens=20, ignore_eos=True), drafter="pld", max_nodes=10**12)
    assert sequence.cache.capacity <= engine.target.max_positions
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    assert sequence.tokens == answer(engine, SamplingParams(max_tokens=20, ignore_eos=True))


def test_max_nodes_bounds_every_step(engine: Engine) -> None:
    params = SamplingParams(max_tokens=30, ignore_eos=True)
    expected = answer(engine, params)
    for nodes in (0, 1, 3):
        sequence = engine.start(PROMPT, params, drafter="casd", max_nodes=nodes)
        engine.prefill(sequence)
        while not sequence.finished:
            before = sequence.stats.drafted
            engine.step([sequence])
            assert sequence.stats.drafted - before <= nodes
        assert sequence.tokens == expected


@pytest.mark.parametrize(
    ("prompt", "params", "options", "error", "says"),
    [
        ([], {}, {}, EmptyPrompt, "at least one token"),
        ([61], {}, {}, InvalidToken, "vocabulary of 61"),
        ([-1], {}, {}, InvalidToken, "tokenizer"),
        ([5], {"logit_bias": {61: 1.0}}, {}, InvalidToken, "vocabulary of 61"),
        ([5] * 500, {"max_tokens": 13}, {}, PromptTooLong, "shorten the prompt"),
        ([5], {}, {"drafter": "medusa"}, UnknownDrafter, "casd"),
        ([5], {}, {"max_nodes": -1}, ValueError, "max_nodes"),
        ([5], {}, {"corpora": [Corpus("unread", ()), Corpus("unread", (5, 61))]}, InvalidToken, "vocabulary of 61"),
        ([5], {}, {"corpora": [Corpus("prediction", (-1, 5))]}, InvalidToken, "tokenizer"),
        ([5, 6], {}, {"segments": [PromptSegment("passage", 1)]}, ValueError, "tile"),
        ([5], {}, {"resumed": [7, 61]}, InvalidToken, "vocabulary of 61"),
        ([5], {}, {"resumed": [-1]}, InvalidToken, "tokenizer"),
        ([5], {"logit_bias": dict.fromkeys(range(61), -math.inf)}, {}, ValueError, "forbid every token"),
        ([5], {"openings": tuple((token,) for token in range(61))}, {}, ValueError, "forbid every token"),
        ([5], {"openings": ((4, 61),)}, {}, InvalidToken, "vocabulary of 61"),
    ],
)
def test_requests_that_cannot_work_say_what_to_do(
    engine: Engine, prompt: list[int], params: dict, options: dict, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        engine.start(prompt, SamplingParams(**params), **options)


def test_stop_strings_need_a_detokenizer() -> None:
    bare = Engine(tiny_target(), "plain")
    with pytest.raises(ValueError, match="detokenizer"):
        bare.start([5], SamplingParams(stop=("x",)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("min_p", 1.0),
        ("repetition_penalty", 0.0),
        ("presence_penalty", float("nan")),
        ("logit_bias", {3: float("inf")}),
        ("logit_bias", {3: float("nan")}),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 1.5),
        ("top_k", 2.5),
        ("max_tokens", 2.5),
        ("logprobs", 1.5),
        ("logit_bias", {1.5: 1.0}),
        ("stop", "text"),
        ("stop", ("",)),
        ("openings", ((),)),
        ("openings", ((3, -1),)),
        ("openings", ((1.5,),)),
    ],
)
def test_sampling_values_outside_their_range_are_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        SamplingParams(**{field: value})  # type: ignore[arg-type]


def test_a_sequence_steps_once_a_step(engine: Engine) -> None:
    sequence = engine.start(PROMPT)
    with pytest.raises(ValueError, match="once"):
        engine.step([sequence, sequence])
    assert not sequence.tokens


def test_segments_have_no_negative_length() -> None:
    with pytest.raises(ValueError, match="length"):
        PromptSegment("passage", -1)


def test_errors_share_a_base() -> None:
    assert issubclass(UnknownDrafter, DecoderError)
    assert issubclass(PromptTooLong, DecoderError)
    with pytest.raises(UnknownDrafter):
        Engine(tiny_target(), "nothing")


def test_drafters_are_fresh_and_check_their_options() -> None:
    assert all(make_drafter(name) is not make_drafter(name) for name in DRAFTERS)
    for options in itertools.chain([{"max_ngram": 0}, {"max_ngram": 9}, {"length": 0}]):
        with pytest.raises(ValueError, match=next(iter(options))):
            PldDrafter(**options)
