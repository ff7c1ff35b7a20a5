"""Spans of an answer and where a drafter copied them from (PLD+, appendix D)."""

from __future__ import annotations

import itertools

import pytest

from decoder import Engine, PromptSegment, SamplingParams, TokenSource
from decoder.drafters.context import DrafterContext
from decoder.drafters.pld_plus import PldPlusDrafter
from decoder.drafts.attribution import Attribution, attribute
from tests.support.tiny_models import tiny_target

SEGMENTS = [[1, 2, 3], [10, 11, 12, 13, 14, 15]]


def at(segment: int | None, offset: int) -> TokenSource:
    return TokenSource("pld_plus", segment, offset)


def test_tokens_that_run_on_both_sides_are_one_span() -> None:
    tokens = [7, 11, 12, 13, 8, 1, 2]
    sources = [None, at(1, 1), at(1, 2), at(1, 3), None, at(0, 0), at(0, 1)]
    assert attribute(tokens, sources) == [Attribution(1, 4, 1, 1), Attribution(5, 7, 0, 0)]


def test_a_jump_in_the_source_or_another_segment_begins_a_new_span() -> None:
    tokens = [11, 12, 14, 15, 1, 2]
    sources = [at(1, 1), at(1, 2), at(1, 4), at(1, 5), at(0, 0), at(0, 1)]
    assert attribute(tokens, sources) == [Attribution(0, 2, 1, 1), Attribution(2, 4, 1, 4), Attribution(4, 6, 0, 0)]


@pytest.mark.parametrize(("min_tokens", "expected"), [(1, 3), (2, 2), (3, 1), (4, 0)])
def test_short_spans_are_left_out(min_tokens: int, expected: int) -> None:
    sources = [at(1, 1), None, at(1, 3), at(1, 4), None, at(0, 0), at(0, 1), at(0, 2)]
    assert len(attribute([11, 7, 13, 14, 7, 1, 2, 3], sources, min_tokens=min_tokens)) == expected


def test_the_targets_own_tokens_belong_where_they_equal_the_source() -> None:
    # Looked up 10, drafted 11 and 12; chose 13 itself; drafted 14; chose 99.
    tokens = [7, 10, 11, 12, 13, 14, 99]
    sources = [None, None, at(1, 1), at(1, 2), None, at(1, 4), None]
    assert attribute(tokens, sources) == [Attribution(2, 4, 1, 1)]
    assert attribute(tokens, sources, SEGMENTS) == [Attribution(1, 6, 1, 0)]
    # A token of its own in the gap is no copy, though the source goes on behind it.
    assert attribute([10, 11, 12, 50, 14], [None, *sources[2:4], None, at(1, 4)], SEGMENTS) == [Attribution(0, 3, 1, 0)]


def test_copies_of_the_answer_itself_and_of_nothing() -> None:
    tokens = [5, 6, 7, 5, 6, 7, 9]
    sources = [None, None, None, None, at(None, 1), at(None, 2), TokenSource("small_model")]
    assert attribute(tokens, sources) == [Attribution(4, 6, None, 1)]
    assert attribute(tokens, sources, SEGMENTS) == [Attribution(3, 6, None, 0)]


def test_a_segment_that_is_not_given_still_counts_its_drafted_tokens() -> None:
    assert attribute([4, 1, 2], [None, at(5, 3), at(5, 4)], SEGMENTS) == [Attribution(1, 3, 5, 3)]


def test_one_source_a_token() -> None:
    with pytest.raises(ValueError, match="one source per token"):
        attribute([1, 2], [None])


@pytest.mark.parametrize("ranking", ["h", "a"])
def test_spans_of_a_decoded_answer_hold_the_same_tokens_on_both_sides(ranking: str) -> None:
    context = DrafterContext(induction_heads=((0, 1), (1, 0)))
    engine = Engine(tiny_target(vocab_size=31, memory=0.01), "plain", context=context)
    prompt = [5, 9, 17, 12, 8, 5, 9, 17, 3, 4, 20, 21, 22, 5]
    segments = [PromptSegment("system", 4), PromptSegment("passage", 6, "p"), PromptSegment("question", 4)]
    tokens: list[int] = []
    sources: list[TokenSource | None] = []
    params = SamplingParams(max_tokens=80, ignore_eos=True)
    for step in engine.generate(prompt, params, segments=segments, drafter=PldPlusDrafter(ranking)):  # type: ignore[arg-type]
        tokens += step.tokens
        sources += step.sources
    texts = [prompt[:4], prompt[4:10], prompt[10:]]
    for given in ([], texts):
        spans = attribute(tokens, sources, given)
        assert spans
        for span in spans:
            text = tokens if span.segment is None else texts[span.segment]
            assert tokens[span.answer_start : span.answer_end] == text[span.offset : span.offset + span.tokens]
        assert all(a.answer_end <= b.answer_start for a, b in itertools.pairwise(spans))
    drafted = sum(source is not None for source in sources)
    assert sum(span.tokens for span in attribute(tokens, sources, min_tokens=1)) == drafted
    assert sum(span.tokens for span in attribute(tokens, sources, texts)) > drafted
