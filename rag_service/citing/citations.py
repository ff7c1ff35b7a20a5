"""Citations: the spans of an answer that its passages support. Pure functions of (answer, passages).

`copied`: a token run of at least `min_run` tokens that answer and passage share. Runs do not overlap; `copied_runs`
chooses them and their passages. Both spans of a citation select equal text: a run is narrowed to whole characters
without white space at its ends, and extended by neighbouring words that are equal as text but not as tokens (often
the first word of a text, or a word in quotation marks).

`retrieved`: a sentence that is hardly copied, with the sentence of a passage that states it (`Stated`).

Knows ids, texts and offsets; knows no tokenizer, no model and no drafting, so the citations do not depend on how the
answer was decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rag_service.citing.copied_runs import Run, Text, copied_runs
from rag_service.citing.equal_spans import equal_spans
from workers.support.evidence import Evidence
from workers.support.passages.sentences import claims

__all__ = ["MIN_RUN", "Citation", "CitedPassage", "Stated", "Text", "carry", "cite", "stated"]

MIN_RUN = 8
"""Fewest tokens of a copied run, by default."""
MIN_COVERED = 0.7
"""Least share of a sentence's words that a sentence of a passage must have, where nothing says how far it states it."""

MOSTLY = 0.8
"""Copied share from which on a sentence gets no `retrieved` citation."""


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage that an answer may cite; `content.text` is the document's text from `source_start` on."""

    collection: str
    document_id: str
    chunk_id: str
    source_start: int
    content: Text


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of the answer and the span of a document that supports it, in code points."""

    answer_start: int
    answer_end: int
    collection: str
    document_id: str
    chunk_id: str
    source_start: int
    source_end: int
    kind: Literal["copied", "retrieved"]
    support: float | None = None
    """Of the answer's sentence; `cite` sets none."""


@dataclass(frozen=True, slots=True)
class Stated:
    """The sentence start:end of an answer, and the place in a passage's text that states it, in code points.

    `passage`: its index.
    """

    start: int
    end: int
    passage: int
    source_start: int
    source_end: int


def stated(question: str, answer: str, passages: Sequence[str], language: str = "en") -> list[Stated]:
    """The sentences of an answer most of whose words are in a sentence of a passage, by `workers.support.evidence`."""
    evidence = Evidence(question, passages, language)
    found = [(start, end, evidence.of(answer[start:end])) for start, end in claims(answer)]
    return [
        Stated(start, end, one.passage, one.start, one.end)
        for start, end, one in found
        if one.covered >= MIN_COVERED and not one.contradicts
    ]


def cite(
    answer: Text, passages: Sequence[CitedPassage], *, min_run: int = MIN_RUN, statements: Sequence[Stated] = ()
) -> list[Citation]:
    """Citations of an answer in the order of its text; at the same position `copied` before `retrieved`.

    Args:
        answer: the answer's tokens and text; tokens past the text's end (a stop string) are ignored.
        passages: best-ranked first.
        min_run: fewest tokens of a copied run, at least 1.
        statements: sentences of the answer that the passages state; those hardly copied become `retrieved` citations.
    """
    shown = sum(start < len(answer.text) for start, _ in answer.spans)
    answer = Text(answer.ids[:shown], answer.spans[:shown], answer.text)
    runs = copied_runs(answer, [p.content for p in passages], min_run)
    copied = list(_copied(answer, passages, runs))
    return sorted([*copied, *_retrieved(statements, passages, copied)], key=_place)


def carry(before: str, cited: Sequence[Citation], after: str, new: Sequence[Citation]) -> list[Citation]:
    """The citations of an edited answer: its own, and those of its base whose span is unchanged.

    A base citation is dropped if it overlaps a new citation of its kind, which may be longer.

    Args:
        before, cited: the answer under edit and its citations.
        after, new: the edited answer and its own citations, from `cite`.
    """
    kept = list(new)
    reached = dict.fromkeys(("copied", "retrieved"), 0)  # citations of one kind do not overlap, and keep their order
    for citation in sorted(cited, key=lambda c: c.answer_start):
        span = before[citation.answer_start : citation.answer_end]
        start = after.find(span, reached[citation.kind])
        if start < 0:
            start = after.find(span)
        if not span or start < 0:
            continue
        reached[citation.kind] = max(reached[citation.kind], start + len(span))
        moved = replace(citation, answer_start=start, answer_end=start + len(span))
        if not any(c.kind == moved.kind and _overlap(start, moved.answer_end, [c]) for c in kept):
            kept.append(moved)
    return sorted(kept, key=_place)


def _place(citation: Citation) -> tuple[int, str, int]:
    return citation.answer_start, citation.kind, citation.answer_end


def _copied(answer: Text, passages: Sequence[CitedPassage], runs: Sequence[Run]) -> Iterator[Citation]:
    for span in equal_spans(answer, [p.content for p in passages], runs):
        p = passages[span.passage]
        place = p.source_start + span.at
        yield Citation(
            span.start, span.end, p.collection, p.document_id, p.chunk_id, place, place + span.length, kind="copied"
        )


def _retrieved(
    statements: Sequence[Stated], passages: Sequence[CitedPassage], copied: Sequence[Citation]
) -> Iterator[Citation]:
    for one in statements:
        if _overlap(one.start, one.end, copied) < MOSTLY * (one.end - one.start):
            p = passages[one.passage]
            at = p.source_start
            yield Citation(
                one.start,
                one.end,
                p.collection,
                p.document_id,
                p.chunk_id,
                at + one.source_start,
                at + one.source_end,
                kind="retrieved",
            )


def _overlap(start: int, end: int, copied: Sequence[Citation]) -> int:
    """Characters of a span that copied citations cover."""
    return sum(max(0, min(end, c.answer_end) - max(start, c.answer_start)) for c in copied)
