"""Citations: which runs of an answer stand in which passage. Pure functions of (answer, passages).

`copied`: maximal token runs that answer and passage share, at least `min_run` tokens long. Longer runs go first and
runs do not overlap; a run that several passages hold goes to the better-ranked one, and there to its first place.
Both spans select equal text, so a run is narrowed to whole characters and freed of white space at its ends.

`retrieved`: a sentence that is not copied but for a little, most of whose words stand in one passage. Its answer span
is the sentence, its source span the whole passage. Lines that end with a colon claim nothing and are left out.

Knows ids, texts and offsets; knows no tokenizer, no model and no drafting, so the citations are the same however the
answer was decoded.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

MIN_RUN = 8
"""Fewest tokens of a copied run, by default."""
MIN_WORDS = 3
"""Fewest different words (of 4 letters or more) and numbers of a sentence that a passage can support."""
MIN_SUPPORT = 0.7
"""Share of a sentence's words that must stand in the passage."""

MOSTLY = 0.8
"""Share of a sentence which, when copied, makes a `retrieved` citation for it needless."""

_SENTENCE = re.compile(r"\S.*?(?:[.!?…。！？]+(?=\s|$)|(?=\n)|$)", re.DOTALL)
_WORD = re.compile(r"\w{4,}|\d+")
_SEPARATOR = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Text:
    """A text with the tokens it is made of.

    `spans`: one (start, end) per id, in code points of `text`: the characters that the token makes or takes part in.
    """

    ids: Sequence[int]
    spans: Sequence[tuple[int, int]]
    text: str


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage that an answer may cite; `content.text` is the document's text from `source_start` on."""

    document_id: str
    chunk_id: str
    source_start: int
    content: Text


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of the answer and the span of a document that it rests on, in code points."""

    answer_start: int
    answer_end: int
    document_id: str
    chunk_id: str
    source_start: int
    source_end: int
    kind: Literal["copied", "retrieved"]


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens answer[start:end] == passages[passage][at : at + end - start]."""

    start: int
    end: int
    passage: int
    at: int


def cite(answer: Text, passages: Sequence[CitedPassage], *, min_run: int = MIN_RUN) -> list[Citation]:
    """Citations of an answer, in the order of its text; at one place `copied` before `retrieved`.

    Args:
        answer: the answer's tokens and text; tokens past the text's end (a stop string) are ignored.
        passages: best-ranked first.
        min_run: fewest tokens of a copied run, at least 1.
    """
    shown = [(i, span) for i, span in zip(answer.ids, answer.spans, strict=True) if span[0] < len(answer.text)]
    runs = copied_runs([i for i, _ in shown], [p.content.ids for p in passages], min_run)
    copied = [citation for run in runs if (citation := _copied(answer, passages[run.passage], run))]
    found = copied + list(_retrieved(answer.text, passages, copied))
    return sorted(found, key=_place)


def carry(before: str, cited: Sequence[Citation], after: str, found: Sequence[Citation]) -> list[Citation]:
    """Citations of an edited answer: those found in it, and those of the answer before whose span it left as it was.

    A span that new citations of the same kind touch is theirs: what is cited there may have grown.

    Args:
        before, cited: the answer under edit and its citations.
        after, found: the edited answer and what `cite` finds in it.
    """
    kept = list(found)
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


def copied_runs(answer: Sequence[int], passages: Sequence[Sequence[int]], min_run: int) -> list[Run]:
    """Non-overlapping shared token runs, in answer order, each attributed to the best-ranked passage.

    The longest run goes first (ties: the earlier one in the answer); what remains of a run that another one overlaps
    is kept if it still has `min_run` tokens.
    """
    # Ids as characters: substring search then runs in C, in linear time.
    texts = ["".join(map(chr, ids)) for ids in passages]
    own = "".join(map(chr, answer))
    waiting = [(start - end, start, end) for start, end in _maximal_spans(own, texts, min_run)]
    heapq.heapify(waiting)
    taken = bytearray(len(own))
    runs: list[Run] = []
    while waiting:
        _, start, end = heapq.heappop(waiting)
        if (free := _uncovered(taken, start, end)) != (start, end):
            if free[1] - free[0] >= min_run:
                heapq.heappush(waiting, (free[0] - free[1], *free))
            continue
        taken[start:end] = b"\1" * (end - start)
        passage, at = next((n, at) for n, text in enumerate(texts) if (at := text.find(own[start:end])) >= 0)
        runs.append(Run(start, end, passage, at))
    return sorted(runs, key=lambda run: run.start)


def _maximal_spans(own: str, texts: Sequence[str], min_run: int) -> Iterator[tuple[int, int]]:
    """Spans of `own` of at least `min_run` that stand in some text and cannot grow on either side; starts increase."""
    grams = {text[i : i + min_run] for text in texts for i in range(len(text) - min_run + 1)}
    whole = _SEPARATOR.join(texts)
    end = 0
    for start in range(len(own) - min_run + 1):
        if own[start : start + min_run] not in grams:
            continue
        before = end
        end = max(end, start + min_run)
        while end < len(own) and own[start : end + 1] in whole:
            end += 1
        if end > before:
            yield start, end


def _uncovered(taken: bytearray, start: int, end: int) -> tuple[int, int]:
    """What is left of a maximal span once runs at its ends are taken away.

    Taken runs are parts of other maximal spans, none of which lies within this one: they cover its ends, never
    its middle alone.
    """
    while start < end and taken[start]:
        start += 1
    while start < end and taken[end - 1]:
        end -= 1
    return start, end


def _place(citation: Citation) -> tuple[int, str, int]:
    return citation.answer_start, citation.kind, citation.answer_end


def _copied(answer: Text, passage: CitedPassage, run: Run) -> Citation | None:
    """The run as text that is equal on both sides, or None where nothing but white space is left."""
    last = run.end - run.start - 1
    content = passage.content
    a0, a1 = answer.spans[run.start][0], min(answer.spans[run.end - 1][1], len(answer.text))
    s0, s1 = content.spans[run.at][0], content.spans[run.at + last][1]
    # Tokens can end inside a character, offsets can leave out a leading space: meet where the texts are equal.
    here, there = answer.text[a0:a1], content.text[s0:s1]
    lead_a, lead_s = len(here) - len(here.lstrip()), len(there) - len(there.lstrip())
    here, there, a0, s0 = here.strip(), there.strip(), a0 + lead_a, s0 + lead_s
    if here != there:
        first, second, length = _longest_equal(here, there)
        a0, s0, here = a0 + first, s0 + second, here[first : first + length]
        space = len(here) - len(here.lstrip())
        a0, s0, here = a0 + space, s0 + space, here.strip()
    if not here:
        return None
    start = passage.source_start + s0
    return Citation(a0, a0 + len(here), passage.document_id, passage.chunk_id, start, start + len(here), kind="copied")


def _longest_equal(a: str, b: str) -> tuple[int, int, int]:
    """(start in a, start in b, length) of the longest equal stretch when up to 2 characters are cut at each start."""
    best = (0, 0, 0)
    for i in range(min(3, len(a))):
        for j in range(min(3, len(b))):
            length = 0
            for x, y in zip(a[i:], b[j:], strict=False):
                if x != y:
                    break
                length += 1
            best = max(best, (i, j, length), key=lambda found: found[2])
    return best


def _retrieved(text: str, passages: Sequence[CitedPassage], copied: Sequence[Citation]) -> Iterator[Citation]:
    words = [frozenset(_words(p.content.text)) for p in passages]
    for start, end in sentences(text):
        if not passages or text[end - 1] == ":" or _overlap(start, end, copied) >= MOSTLY * (end - start):
            continue
        said = frozenset(_words(text[start:end]))
        if len(said) < MIN_WORDS:
            continue
        # max keeps the first of equals: the better-ranked passage
        best = max(range(len(passages)), key=lambda n: len(said & words[n]))
        if len(said & words[best]) < MIN_SUPPORT * len(said):
            continue
        p = passages[best]
        yield Citation(
            start,
            end,
            p.document_id,
            p.chunk_id,
            p.source_start,
            p.source_start + len(p.content.text),
            kind="retrieved",
        )


def _overlap(start: int, end: int, copied: Sequence[Citation]) -> int:
    """Characters of a span that copied citations cover."""
    return sum(max(0, min(end, c.answer_end) - max(start, c.answer_start)) for c in copied)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the sentences and lines of a text, white space at their ends left out."""
    for match in _SENTENCE.finditer(text):
        if sentence := match.group().rstrip():
            yield match.start(), match.start() + len(sentence)


def _words(text: str) -> Iterable[str]:
    return (word.casefold() for word in _WORD.findall(text))
