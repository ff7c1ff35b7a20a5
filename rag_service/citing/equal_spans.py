"""Equal spans: runs of tokens as spans of text that are equal on both sides. Pure.

Tokens end inside characters, carry the space before a word, and split a word one way after a quotation mark and
another after a space. So a span begins and ends with a whole character that is no white space; spans between which
answer and passage are equal too become one; and each grows by the words beside it that are equal. The rest of a number
that is another one in the passage is no copy: "00 to 18:00" of 12:00 and 15:00.

Knows runs, texts and offsets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rag_service.citing.copied_runs import Run, Text

NUMBER = 20
"""Characters before a span in which a number may begin."""
_BEFORE = re.compile(r"\d[.,:]?\Z")
_REST = re.compile(r"\d[\d.,:]*")
_BEHIND = re.compile(r"(?<=\d)[.,:]?\d|(?<=\d[.,:])\d")
_LAST = re.compile(r"\d[\d.,:]*\Z")


@dataclass(frozen=True, slots=True)
class EqualSpan:
    """answer[start : start + length] == passages[passage][at : at + length], in code points."""

    start: int
    passage: int
    at: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def equal_spans(answer: Text, passages: Sequence[Text], runs: Sequence[Run]) -> list[EqualSpan]:
    """The spans of runs that are in answer order and do not overlap; nor do the spans, and each holds visible text."""
    spans: list[EqualSpan] = []
    for run in runs:
        span = _met(answer, passages[run.passage], run)
        if span and spans and _equal_between(spans[-1], span, answer.text, passages[run.passage].text):
            start, at = spans[-1].start, spans.pop().at
            span = EqualSpan(start, run.passage, at, span.end - start)
        if span:
            spans.append(span)
    grown: list[EqualSpan] = []
    for span, after in zip(spans, [*spans, None][1:], strict=True):
        floor = grown[-1].end if grown else 0
        ceiling = after.start if after else len(answer.text)
        whole = _grown(span, answer.text, passages[span.passage].text, floor, ceiling)
        if cut := _without_parts(whole, answer.text, passages[span.passage].text):
            grown.append(cut)
    return grown


def _met(answer: Text, content: Text, run: Run) -> EqualSpan | None:
    """The run as text that is equal on both sides, or None where nothing but white space is left."""
    last = run.end - run.start - 1
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
    return EqualSpan(a0, run.passage, s0, len(here)) if here else None


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
            best = max(best, (i, j, length), key=lambda candidate: candidate[2])
    return best


def _equal_between(one: EqualSpan, other: EqualSpan, text: str, source: str) -> bool:
    """Whether a span goes on to another one on both sides alike."""
    return (
        one.passage == other.passage
        and other.start - one.start == other.at - one.at
        and text[one.end : other.start] == source[one.at + one.length : other.at]
    )


def _grown(span: EqualSpan, text: str, source: str, floor: int, ceiling: int) -> EqualSpan:
    """The span with the equal words on its sides, within floor..ceiling of the answer."""
    start, at, end, after = span.start, span.at, span.end, span.at + span.length
    left = right = 0
    for step in range(1, min(start - floor, at) + 1):
        if text[start - step] != source[at - step]:
            break
        if _begins_word(text, start - step) and _begins_word(source, at - step):
            left = step
    for step in range(1, min(ceiling - end, len(source) - after) + 1):
        if text[end + step - 1] != source[after + step - 1]:
            break
        if _ends_word(text, end + step) and _ends_word(source, after + step):
            right = step
    return EqualSpan(start - left, span.passage, at - left, left + span.length + right)


def _without_parts(span: EqualSpan, text: str, source: str) -> EqualSpan | None:
    """The span without parts of numbers at its ends; None if nothing is left."""
    start, at, length = span.start, span.at, span.length
    before = _BEFORE.search(text, max(0, start - NUMBER), start), _BEFORE.search(source, max(0, at - NUMBER), at)
    if any(before) and (rest := _REST.match(text, start, start + length)):
        start, at, length = start + len(rest[0]), at + len(rest[0]), length - len(rest[0])
    if _BEHIND.match(text, start + length) or _BEHIND.match(source, at + length):
        length = len(_LAST.sub("", text[start : start + length], count=1))
    said = text[start : start + length]
    lead = len(said) - len(said.lstrip())
    return EqualSpan(start + lead, span.passage, at + lead, len(said.strip())) if said.strip() else None


def _begins_word(text: str, i: int) -> bool:
    return _in_word(text[i]) and not (i > 0 and _in_word(text[i - 1]))


def _ends_word(text: str, i: int) -> bool:
    return _in_word(text[i - 1]) and not (i < len(text) and _in_word(text[i]))


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
