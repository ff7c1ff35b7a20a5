"""Repetition against a slow reading of the rule, on texts that repeat themselves with and without a reason."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence as Ids
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder import Corpus, RepetitionStop, SamplingParams, Sequence
from decoder.sampling import repetition
from decoder.sampling.repetition import LONGEST_STRETCH, VARIED, Repetition, most_repeats
from tests.support.models.repeating_texts import REASONABLE, STUCK, pieces


def end(rule: RepetitionStop, prompt: Ids[int], answer: Ids[int]) -> int | None:
    """The number of tokens after which an answer ends; None if it does not."""
    watch = Repetition(rule, prompt)
    return next((count for count, token in enumerate(answer, 1) if watch.push(token)), None)


def repeated(tokens: Ids[int], stretch: int) -> int:
    """How many of the last tokens are repeats of a stretch of this length, back to back, itself included."""
    count = 0
    while count + stretch < len(tokens) and tokens[-1 - count] == tokens[-1 - count - stretch]:
        count += 1
    return min(count + stretch, len(tokens))


def slow_end(rule: RepetitionStop, prompt: Ids[int], answer: Ids[int], longest: int, varied: int) -> int | None:
    """`end`, which looks at the whole answer after every token."""
    for count in range(1, len(answer) + 1):
        said = answer[:count]
        for stretch in range(1, longest + 1):
            least = max(rule.length, rule.times * stretch)
            if repeated(said, stretch) < least:
                continue
            if len(set(said[-stretch:])) < varied:
                least = max(2 * rule.length, rule.times * stretch)
            least += stretch * max(
                (
                    repeated(prompt[:place], other) // other
                    for other in range(1, 2 * stretch + 1)
                    for place in range(1, len(prompt) + 1)
                    if 2 * other >= stretch and repeated(prompt[:place], other) >= 2 * other
                ),
                default=0,
            )
            if repeated(said, stretch) >= least:
                return count
            break
    return None


@st.composite
def stuttering(draw: st.DrawFn, most: int) -> list[int]:
    """Pieces of few different tokens, each said once or several times in a row."""
    tokens: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        piece = draw(st.lists(st.integers(0, draw(st.sampled_from((0, 1, 3, 9)))), min_size=1, max_size=9))
        tokens += piece * draw(st.integers(1, most))
    return tokens[:90]


@settings(max_examples=300, deadline=None)
@given(stuttering(9), stuttering(3), st.integers(1, 14), st.integers(2, 5), st.integers(2, 8), st.integers(1, 4))
def test_is_the_rule(answer: list[int], prompt: list[int], length: int, times: int, longest: int, varied: int) -> None:
    """Few candidates, so that their window wraps around again and again."""
    rule = RepetitionStop(length, times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repetition, "LONGEST_STRETCH", longest)
        patch.setattr(repetition, "VARIED", varied)
        assert end(rule, prompt, answer) == slow_end(rule, prompt, answer, longest, varied)


@settings(max_examples=50, deadline=None)
@given(stuttering(30), st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(0, 9), max_size=20))
def test_a_copy_of_the_prompt_never_ends(answer: list[int], before: list[int], after: list[int]) -> None:
    assert end(RepetitionStop(4, 2), [*before, *answer, *after], answer) is None


@pytest.mark.parametrize(
    ("stretch", "tokens"),
    [(1, 256), (2, 256), (VARIED - 1, 256), (VARIED, 128), (31, 128), (32, 128), (33, 132), (LONGEST_STRETCH, 2048)],
)
def test_the_defaults(stretch: int, tokens: int) -> None:
    """128 tokens and four repeats; 256 tokens of fill."""
    loop = list(range(stretch)) * (3000 // stretch + 1)
    assert end(RepetitionStop(), [], loop) == tokens
    assert end(RepetitionStop(), [], [999, 998, *loop]) == tokens + 2


def test_a_longer_stretch_is_not_looked_for() -> None:
    assert end(RepetitionStop(), [], list(range(LONGEST_STRETCH + 1)) * 6) is None


def test_a_stretch_may_come_as_often_as_in_the_prompt_and_then_some() -> None:
    row = list(range(20))
    assert end(RepetitionStop(), row, row * 30) == 128, "once is no repeat"
    for times in (2, 5, 50):
        prompt = [77, *row * times, 78]
        assert end(RepetitionStop(), prompt, row * 90) == 20 * times + 128
        assert end(RepetitionStop(), prompt, [*row, 5] * 90) == 21 * times + 128, "rows with a token more"
        assert end(RepetitionStop(), prompt, [token + 50 for token in row] * 90) == 20 * times + 128, "other rows"
    assert end(RepetitionStop(), [5] * 15, row * 90) == 128, "a short run of another kind allows nothing"


def test_the_prompt_counts_for_stretches_of_about_the_same_length() -> None:
    assert most_repeats([1, 2, 3] * 5, range(3, 4)) == 5
    assert most_repeats([1, 2, 3] * 5, range(6, 7)) == 2
    assert most_repeats([1, 2, 3] * 5, range(4, 6)) == 0
    assert most_repeats([9, *[1, 2, 3] * 5, 1, 7, *[4, 5] * 4], range(1, 10)) == 5
    assert most_repeats([], range(1, 9)) == most_repeats([4], range(1, 9)) == 0


@pytest.mark.parametrize("name", REASONABLE)
def test_a_reasonable_text_is_whole(name: str) -> None:
    assert end(RepetitionStop(), [], pieces(REASONABLE[name])) is None


@pytest.mark.parametrize("name", REASONABLE)
def test_a_copy_of_a_long_text_is_whole(name: str) -> None:
    """Also with changes: other words, longer numbers, a row less, rows more."""
    text = (REASONABLE[name] + "\n") * 6
    lines = text.splitlines(keepends=True)
    for copy in (text, text.upper(), text.replace("0", "17"), "".join(lines[1:]), lines[2] * 3 + text):
        assert end(RepetitionStop(), pieces("Tidy this up:\n" + text), pieces(copy)) is None


@pytest.mark.parametrize("name", STUCK)
def test_a_text_that_is_stuck_ends(name: str) -> None:
    tokens = pieces(STUCK[name])
    count = end(RepetitionStop(), pieces("Here is what I know. The answer is in the second passage."), tokens)
    assert count is not None
    assert count < len(tokens) / 1.2


@pytest.mark.parametrize(("length", "times", "what"), [(0, 4, "length must be at least 1"), (64, 1, "times must be")])
def test_a_wrong_value_is_named(length: int, times: int, what: str) -> None:
    with pytest.raises(ValueError, match=f"repetition.{what}"):
        RepetitionStop(length, times)


def sequence(tokens: Ids[int] = (), **params: Any) -> Sequence:
    return Sequence([1, 2, 3], SamplingParams(**params), (), None, frozenset({2}), resumed=tokens)


def stuck(source: random.Random) -> list[int]:
    """Some tokens, and then a stretch of 21 tokens again and again; no token is 2."""
    return [source.randrange(3, 9) for _ in range(30)] + [source.randrange(3, 40) for _ in range(21)] * 9


def test_a_sequence_ends_by_repetition_only_if_asked() -> None:
    loop = list(range(10, 20)) * 20
    off, on = sequence(max_tokens=150), sequence(max_tokens=150, repetition=RepetitionStop())
    assert off.extend(loop) == loop[:150]
    assert off.finish_reason == "length"
    assert on.extend(loop) == loop[:128]
    assert on.finish_reason == "repetition"


def test_other_ends_come_first_but_the_limit() -> None:
    rule = RepetitionStop(8, 4)
    assert sequence([2, 2][:1], repetition=rule).finish_reason == "stop"
    end_tokens = sequence([5] * 15, repetition=rule)
    end_tokens.end_tokens = frozenset({5})
    end_tokens.extend([5])
    assert end_tokens.finish_reason == "stop"
    assert sequence([5] * 16, max_tokens=16, repetition=rule).finish_reason == "repetition"


def test_the_prompt_counts_and_corpora_do_not() -> None:
    loop = stuck(random.Random(6))
    params = SamplingParams(repetition=RepetitionStop())
    ends = []
    for prompt, corpora in (([1], ()), ([1], (Corpus("prediction", tuple(loop)),)), ([1, *loop], ())):
        answer = Sequence(prompt, params, (), None, frozenset({2}), corpora=corpora)
        answer.extend(loop)
        ends.append((answer.finish_reason, len(answer.tokens)))
    assert ends[0] == ends[1]
    assert ends[0][0] == "repetition"
    assert ends[2] == (None, len(loop))


def test_an_answer_goes_on_after_a_resume_as_if_it_had_not_stopped() -> None:
    loop = stuck(random.Random(3))
    whole = sequence(repetition=RepetitionStop())
    tokens = whole.extend(loop)
    assert whole.finish_reason == "repetition"
    for size in range(len(tokens)):
        resumed = sequence(tokens[:size], repetition=RepetitionStop())
        assert resumed.extend(loop[size:]) == tokens[size:]
        assert resumed.finish_reason == "repetition"
    with pytest.raises(ValueError, match="resume it with fewer"):
        sequence(loop, repetition=RepetitionStop())


def test_the_text_ends_at_the_same_token_in_steps_of_any_size() -> None:
    source = random.Random(4)
    loop = stuck(source)
    one_by_one = sequence(repetition=RepetitionStop())
    one_by_one.extend(loop)
    for _ in range(20):
        steps, rest = sequence(repetition=RepetitionStop()), list(loop)
        while not steps.finished:
            size = source.randint(1, 40)
            steps.extend(rest[:size])
            rest = rest[size:]
        assert steps.tokens == one_by_one.tokens


def test_a_token_costs_as_little_late_as_early() -> None:
    source = random.Random(5)
    watch = Repetition(RepetitionStop(), [])
    seconds = []
    for _ in range(20):
        tokens = [source.randrange(50_000) for _ in range(2000)]
        started = time.perf_counter()
        for token in tokens:
            watch.push(token)
        seconds.append(time.perf_counter() - started)
    assert min(seconds[-5:]) < 3 * min(seconds[:5])
