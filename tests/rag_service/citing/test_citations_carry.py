"""Citations of an edited answer: what the edit left alone stays cited as it was."""

from __future__ import annotations

import random

from rag_service.citing.citations import Citation, carry


def copied(start: int, end: int, source: int, chunk: str = "c1") -> Citation:
    return Citation(start, end, "c", "d1", chunk, source, source + end - start, kind="copied")


BEFORE = "Backups are kept for thirty days. They are encrypted. Ask the desk."
CITED = [copied(0, 33, 100), copied(34, 53, 300, "c2")]


def test_untouched_spans_keep_their_source() -> None:
    after = "In short: Backups are kept for thirty days. They are encrypted. Ask someone else."
    made = carry(BEFORE, CITED, after, [])
    assert [after[c.answer_start : c.answer_end] for c in made] == [
        BEFORE[c.answer_start : c.answer_end] for c in CITED
    ]
    assert [(c.chunk_id, c.source_start, c.source_end) for c in made] == [("c1", 100, 133), ("c2", 300, 319)]


def test_changed_spans_are_not_cited() -> None:
    after = BEFORE.replace("thirty", "forty")
    (kept,) = carry(BEFORE, CITED, after, [])
    assert after[kept.answer_start : kept.answer_end] == "They are encrypted."


def test_what_is_found_anew_wins() -> None:
    grown = copied(0, 53, 500, "c9")
    assert carry(BEFORE, CITED, BEFORE, [grown]) == [grown]
    retrieved = Citation(0, 33, "c", "d1", "c1", 0, 200, kind="retrieved")
    assert carry(BEFORE, CITED, BEFORE, [retrieved]) == [*CITED[:1], retrieved, *CITED[1:]]


def test_equal_spans_stay_in_order() -> None:
    before = "Yes. No. Yes."
    cited = [copied(0, 4, 10), copied(9, 13, 20, "c2")]
    after = "Well. Yes. No. Yes."
    assert [(c.answer_start, c.chunk_id) for c in carry(before, cited, after, [])] == [(6, "c1"), (15, "c2")]


def test_every_carried_span_selects_the_same_text() -> None:
    source = random.Random(4)
    words = ["the", "fox", "may", "jump", "over", "a", "dog", "and", "rest", "there"]
    for _ in range(300):
        before = " ".join(source.choices(words, k=20))
        after = " ".join(word for word in before.split() if source.random() > 0.1)
        start = source.randrange(len(before) - 8)
        cited = [copied(start, start + 8, 50)]
        for citation in carry(before, cited, after, []):
            assert after[citation.answer_start : citation.answer_end] == before[start : start + 8]
            assert (citation.source_start, citation.source_end) == (50, 58)
        assert bool(carry(before, cited, after, [])) == (before[start : start + 8] in after)
