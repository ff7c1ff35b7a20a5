"""Which copied runs are chosen: the best sum by brute force, and each rule by an example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_service.citing.copied_runs import CHANGE, RUN, TOKEN, Run, Text, copied_runs

PIECES = st.lists(st.sampled_from([" x", " y", "x", ",", ".", "\n"]), max_size=9)
CASES = st.tuples(PIECES, st.lists(PIECES, max_size=3), st.integers(1, 3))


def text(pieces: Sequence[str]) -> Text:
    """One token a piece."""
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    spans = [(end - len(piece), end) for piece, end in zip(pieces, ends, strict=True)]
    return Text([hash(piece) for piece in pieces], spans, "".join(pieces))


def words(*sentences: str) -> Text:
    """One token a word, with the space in front of it; a comma or full stop is a token of its own."""
    spaced = " ".join(sentences).replace(",", " ,").replace(".", " .").split()
    return text([piece if piece in ",." or not n else f" {piece}" for n, piece in enumerate(spaced)])


def chosen(answer: Text, *passages: Text, min_run: int = 2) -> list[tuple[str, int]]:
    """The runs' text, and the number of their passage."""
    return [
        (answer.text[answer.spans[run.start][0] : answer.spans[run.end - 1][1]].strip(), run.passage)
        for run in copied_runs(answer, passages, min_run)
    ]


def equal(answer: Sequence[str], passage: Sequence[str]) -> bool:
    return len(answer) == len(passage) and [answer[0].lstrip(), *answer[1:]] == [passage[0].lstrip(), *passage[1:]]


def shared(answer: Sequence[str], passages: Sequence[Sequence[str]], size: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, passage) of every run that may be chosen."""
    for start in range(len(answer)):
        for end in range(start + size, len(answer) + 1):
            if answer[start].strip() in ("", ",", "."):
                continue
            for n, passage in enumerate(passages):
                if any(equal(answer[start:end], passage[at : at + end - start]) for at in range(len(passage))):
                    yield start, end, n


def break_at(answer: Sequence[str], token: int) -> int:
    """What has ended right in front of a token: 2 a sentence or line, 1 a clause, 0 nothing."""
    before = answer[token - 1] if token else ""
    spaced = token < len(answer) and answer[token][0].isspace()
    if before == "\n" or (before == "." and spaced):
        return 2
    return int(before == "," and spaced)


def total(answer: Sequence[str], runs: Sequence[tuple[int, int, int]]) -> int:
    gains = sum(TOKEN * sum(piece.strip() != "" for piece in answer[start:end]) - RUN for start, end, _ in runs)
    changes = 0
    for (_, end, one), (start, _, other) in pairwise(runs):
        if one != other:
            changes += CHANGE[max(break_at(answer, token) for token in range(end, start + 1))]
    return gains - changes


def best_total(answer: Sequence[str], runs: Sequence[tuple[int, int, int]]) -> int:
    """The highest sum of all ways to choose runs that do not overlap."""

    def ways(taken: list[tuple[int, int, int]]) -> Iterator[int]:
        yield total(answer, taken)
        for run in runs:
            if not taken or run[0] >= taken[-1][1]:
                yield from ways([*taken, run])

    return max(ways([]))


@settings(max_examples=300, deadline=None)
@given(CASES)
def test_no_other_choice_has_a_higher_sum(case: tuple[list[str], list[list[str]], int]) -> None:
    answer, passages, size = case
    runs = copied_runs(text(answer), [text(passage) for passage in passages], size)
    found = [(run.start, run.end, run.passage) for run in runs]
    allowed = list(shared(answer, passages, size))
    assert all(run in allowed for run in found)
    assert all(one.end <= other.start for one, other in pairwise(runs))
    for run in runs:
        assert equal(answer[run.start : run.end], passages[run.passage][run.at : run.at + run.end - run.start])
    assert total(answer, found) == best_total(answer, allowed)


def test_equal_sums_go_to_the_better_ranked_passage() -> None:
    answer = words("we know that red cats sleep")
    assert chosen(answer, words("all red cats sleep"), words("red cats sleep too")) == [("red cats sleep", 0)]
    assert chosen(answer, words("all red cats"), words("red cats sleep too")) == [("red cats sleep", 1)]


def test_a_run_goes_to_the_passage_of_the_run_before_it() -> None:
    answer = words("in Rome it rained all day")
    assert chosen(answer, words("it rained all day"), words("in Rome then it rained all day")) == [
        ("in Rome", 1),
        ("it rained all day", 1),
    ]


def test_a_run_goes_to_the_passage_of_the_run_behind_it() -> None:
    answer = words("it rained all day even in Rome")
    assert chosen(answer, words("it rained all day"), words("in Rome, it rained all day")) == [
        ("it rained all day", 1),
        ("in Rome", 1),
    ]


def test_between_two_passages_it_goes_with_the_run_behind() -> None:
    one, other = words("The Games began in May 1900"), words("The Games ended with a parade")
    answer = words("began in May 1900 and The Games also ended with a parade")
    assert chosen(answer, one, other) == [
        ("began in May 1900", 0),
        ("The Games", 1),
        ("ended with a parade", 1),
    ]


def test_a_comma_parts_more_than_a_word() -> None:
    one, other = words("red cats sleep late but The Games"), words("The Games run fast")
    answer = words("red cats sleep now The Games , they say , run fast")
    assert chosen(answer, one, other) == [("red cats sleep", 0), ("The Games", 0), ("run fast", 1)]


def test_a_sentence_begins_anew() -> None:
    """Behind its end a change of passage costs nothing, so rank decides what the sentence itself leaves open."""
    first, second = words("red cats sleep late"), words("dogs run fast. red cats sleep late")
    assert chosen(words("dogs run fast. we say red cats sleep"), first, second) == [
        ("dogs run fast.", 1),
        ("red cats sleep", 0),
    ]
    assert chosen(words("dogs run fast and we say red cats sleep"), first, second) == [
        ("dogs run fast", 1),
        ("red cats sleep", 1),
    ]


def test_a_token_more_elsewhere_does_not_outweigh_the_words_around() -> None:
    first, second = words("The Games ended with a parade"), words("see The Games of 1900")
    assert chosen(words("The Games of course ended with a parade"), first, second) == [
        ("The Games", 0),
        ("ended with a parade", 0),
    ]


def test_many_tokens_more_elsewhere_do() -> None:
    first, second = words("The Games ended with a parade"), words("see The Games of the year 1900")
    assert chosen(words("The Games of the year 1900 ended with a parade"), first, second) == [
        ("The Games of the year 1900", 1),
        ("ended with a parade", 0),
    ]


def test_two_words_of_a_third_passage_are_not_cited_amid_a_sentence_of_another() -> None:
    first, second = words("red cats sleep late , dogs run fast"), words("one of the three")
    assert chosen(words("red cats sleep late and of the dogs run fast"), first, second) == [
        ("red cats sleep late", 0),
        ("dogs run fast", 0),
    ]


@pytest.mark.parametrize("mark", [",", "."])
def test_no_run_begins_with_a_closing_mark(mark: str) -> None:
    passage = words(f"late {mark} The cats")
    assert chosen(words(f"now {mark} The cats"), passage) == [("The cats", 0)]
    assert chosen(words(f"now {mark} The dogs"), passage) == []
    assert chosen(words(f"too late {mark} The cats"), passage) == [(f"late{mark} The cats", 0)]


def test_the_first_token_may_have_other_white_space_in_front() -> None:
    answer, passage = text(["Red", " cats", " sleep"]), text(["The", " Red", " cats", "\n", " sleep"])
    assert copied_runs(answer, [passage], 2) == [Run(0, 2, 0, 1)]


def test_white_space_that_no_token_holds_is_still_there() -> None:
    """Offsets of some tokenizers leave the space in front of a word out."""
    apart, together = Text([1, 2], [(0, 3), (4, 7)], "The fox"), Text([1, 2], [(0, 3), (3, 6)], "Thefox")
    assert copied_runs(apart, [together], 2) == []
    assert copied_runs(apart, [words("The fox")], 2) == [Run(0, 2, 0, 0)]


def test_a_run_is_placed_behind_the_one_before_it() -> None:
    passage = words("The Games ended. Later it rained. The Games ended")
    answer = words("it rained when The Games ended")
    assert copied_runs(answer, [passage], 2) == [Run(0, 2, 0, 5), Run(3, 6, 0, 8)]
    assert copied_runs(words("so The Games ended"), [passage], 2) == [Run(1, 4, 0, 0)]


def test_a_long_repetitive_answer_takes_no_long() -> None:
    answer, passages = text([" x"] * 4000), [text([" x"] * 3000), text([" x", " y"] * 1000)]
    assert copied_runs(answer, passages, 8) == [Run(0, 3000, 0, 0), Run(3000, 4000, 0, 0)]


def test_nothing_shared_and_nothing_there() -> None:
    assert copied_runs(words("red cats"), [words("green dogs"), text([])], 2) == []
    assert copied_runs(text([]), [words("green dogs")], 2) == []
    assert copied_runs(words("red cats"), [], 2) == []
