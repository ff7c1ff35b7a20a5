"""Citations against a brute-force version, and on texts whose tokens split characters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.answers import answer_text, passage_text, spans
from rag_service.citations import CitedPassage, Run, Text, cite, copied_runs, sentences
from workers.tokens import Tokens

FEW = st.lists(st.integers(0, 2), max_size=14)
RUNS = st.tuples(FEW, st.lists(FEW, max_size=3), st.integers(1, 4))


def brute_force(answer: Sequence[int], passages: Sequence[Sequence[int]], min_run: int) -> list[Run]:
    """Longest first, then earliest in the answer, then best-ranked, then earliest in the passage; no overlap.

    A shared run counts by what is free of it: all free stretches of all shared runs compete at each turn.
    """

    def places(start: int, end: int) -> list[tuple[int, int]]:
        run = list(answer[start:end])
        return [
            (n, at)
            for n, ids in enumerate(passages)
            for at in range(len(ids) - len(run) + 1)
            if list(ids[at : at + len(run)]) == run
        ]

    taken: set[int] = set()
    runs: list[Run] = []
    while True:
        free = [
            (start, end)
            for start in range(len(answer))
            for end in range(start + min_run, len(answer) + 1)
            if not taken & set(range(start, end)) and places(start, end)
        ]
        if not free:
            return sorted(runs, key=lambda run: run.start)
        start, end = min(free, key=lambda span: (span[0] - span[1], span[0]))
        taken |= set(range(start, end))
        runs.append(Run(start, end, *places(start, end)[0]))


@given(RUNS)
def test_copied_runs_are_those_of_brute_force(case: tuple[list[int], list[list[int]], int]) -> None:
    assert copied_runs(*case) == brute_force(*case)


@given(RUNS)
def test_brute_force_tells_a_shortened_run(case: tuple[list[int], list[list[int]], int]) -> None:
    """The comparison above can fail: dropping the last run or shortening one is seen."""
    runs = copied_runs(*case)
    if runs:
        assert runs[:-1] != brute_force(*case)


def test_ties_go_to_the_better_ranked_passage() -> None:
    shared = [1, 2, 3, 4]
    assert copied_runs([9, *shared, 8], [[5, *shared], [*shared, 6]], 3) == [Run(1, 5, 0, 1)]
    assert copied_runs([9, *shared, 8], [shared[:3], shared], 3) == [Run(1, 5, 1, 0)]


def test_a_long_repetitive_answer_takes_no_long() -> None:
    assert copied_runs([7] * 4000, [[7] * 3000, [7, 8] * 1000], 8) == [Run(0, 3000, 0, 0), Run(3000, 4000, 0, 0)]


def test_surrogate_ids_and_large_ids_are_ids_like_others() -> None:
    ids = [0xD800, 0xDFFF, 0, 10, 150_000]
    assert copied_runs(ids, [[1, *ids]], 5) == [Run(0, 5, 0, 1)]


CHARACTERS = st.text(alphabet="ab é東😀\n.", max_size=30)


@given(CHARACTERS, CHARACTERS, CHARACTERS, st.integers(1, 6), st.integers(0, 8))
def test_copied_spans_select_equal_text(
    tokens: Tokens, common: str, before: str, after: str, min_run: int, cut: int
) -> None:
    """Whatever the tokens split: byte-level tokens end inside characters, and a stop string cuts the text."""
    answer = before + common + after
    ids = tokens.encode_content(answer).ids
    shown = answer[: max(0, len(answer) - cut)]
    passage = CitedPassage("d", "d:0", 100, passage_text(after + common + before, tokens))
    for citation in cite(answer_text(ids, shown, tokens), [passage], min_run=min_run):
        if citation.kind == "copied":
            here = shown[citation.answer_start : citation.answer_end]
            there = passage.content.text[citation.source_start - 100 : citation.source_end - 100]
            assert here == there
            assert here == here.strip() != ""


@given(st.lists(st.integers(3, 260), max_size=40), CHARACTERS)
def test_any_ids_are_cited_exactly(tokens: Tokens, ids: list[int], text: str) -> None:
    """Ids a model may choose, broken characters included."""
    shown = tokens.decode(ids)
    passages = [CitedPassage("d", "d:0", 0, passage_text(part, tokens)) for part in (text, shown)]
    for citation in cite(answer_text(ids, shown, tokens), passages, min_run=2):
        source = text if citation.document_id == "d" and citation.kind == "copied" else ""
        here = shown[citation.answer_start : citation.answer_end]
        if citation.kind == "copied":
            assert here in (
                source[citation.source_start : citation.source_end],
                shown[citation.source_start : citation.source_end],
            )


@given(CHARACTERS)
def test_spans_cover_the_text(text: str) -> None:
    pieces = [bytes([byte]) for byte in text.encode()]
    found = spans(pieces)
    assert all(text[start:end].encode().find(piece) >= 0 for (start, end), piece in zip(found, pieces, strict=True))
    assert not found or found[-1][1] == len(text)


def test_offsets_that_leave_out_a_leading_space_still_meet() -> None:
    """Some tokenizers' offsets begin after the space that their token carries."""
    answer = Text([1, 2], [(0, 4), (4, 8)], "The fox ")
    passage = CitedPassage("d", "d:0", 10, Text([1, 2], [(0, 3), (4, 7)], "The fox"))
    (citation,) = cite(answer, [passage], min_run=2)
    assert (citation.answer_start, citation.answer_end) == (0, 7)
    assert (citation.source_start, citation.source_end) == (10, 17)


def test_a_reworded_sentence_is_a_retrieved_citation() -> None:
    source = "Refunds are granted within thirty days after purchase when the receipt is shown."
    passages = [
        CitedPassage("x", "x:0", 0, Text([], [], "Nothing about it here at all.")),
        CitedPassage("d", "d:3", 40, Text([], [], source)),
    ]
    answer = "Sure. Within thirty days after purchase, refunds are granted. Bananas grow in tropical places."
    (citation,) = cite(Text([], [], answer), passages)
    assert citation.kind == "retrieved"
    assert answer[citation.answer_start : citation.answer_end] == (
        "Within thirty days after purchase, refunds are granted."
    )
    assert (citation.chunk_id, citation.source_start, citation.source_end) == ("d:3", 40, 40 + len(source))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One. Two!\nThree", ["One.", "Two!", "Three"]),
        ("  3.14 is pi.  ", ["3.14 is pi."]),
        ("- a\n\n- b", ["- a", "- b"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == expected
