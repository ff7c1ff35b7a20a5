"""Marked quotations and how well citations agree with them, token by token. Pure.

A reference marks a quotation as `[ N text ]`, where N is the passage, counted from 1. The markers are removed and the
remaining text is cited like an answer. Tokens of white space do not count.

Knows tokens with their characters, quotations and citations; knows no tokenizer and no citing algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MARK = re.compile(r"\[ (\d+) (.*?) \]", re.DOTALL)


class Quotation(NamedTuple):
    """Characters start:end of an answer, taken from a passage (counted from 0)."""

    start: int
    end: int
    passage: int


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """An answer without its markers, and its quotations in order."""

    text: str
    quotations: tuple[Quotation, ...]


def read_marks(reference: str) -> MarkedAnswer:
    """Remove the markers from a reference."""
    text, quotations, end = "", [], 0
    for mark in _MARK.finditer(reference):
        text += reference[end : mark.start()]
        quotations.append(Quotation(len(text), len(text) + len(mark[2]), int(mark[1]) - 1))
        text += mark[2]
        end = mark.end()
    return MarkedAnswer(text + reference[end:], tuple(quotations))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of tokens and quotations, which add up over answers.

    Attributes:
        both, cited, quoted: tokens that are quoted and cited, from whichever passage; cited; quoted.
        quotations, found, right: quotations; those with a cited token; those with more than half of their tokens cited
            to their passage.
        long, long_right: quotations, and right ones, with at least as many tokens as the threshold for citations.
        right_of_found: found quotations with more than half of their cited tokens cited to their passage.
    """

    answers: int = 0
    both: int = 0
    cited: int = 0
    quoted: int = 0
    quotations: int = 0
    found: int = 0
    right: int = 0
    long: int = 0
    long_right: int = 0
    right_of_found: int = 0

    @property
    def precision(self) -> float:
        return self.both / self.cited if self.cited else 0.0

    @property
    def recall(self) -> float:
        return self.both / self.quoted if self.quoted else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.both / (self.cited + self.quoted) if self.cited + self.quoted else 0.0


def agreement(
    answer: MarkedAnswer, spans: Sequence[tuple[int, int]], cited: Sequence[Quotation], threshold: int
) -> Agreement:
    """Compare the citations of one answer with its quotations.

    Args:
        spans: (start, end) of the answer's tokens, in code points.
        cited: the citations; no two overlap.
        threshold: fewest tokens of a citation.
    """
    tokens = [visible for span in spans if (visible := _visible(answer.text, *span))]
    quoted_from = [_passage(token, answer.quotations) for token in tokens]
    cited_from = [_passage(token, cited) for token in tokens]
    found = right = long = long_right = right_of_found = 0
    for quotation in answer.quotations:
        passages = [passage for token, passage in zip(tokens, cited_from, strict=True) if _overlap(token, quotation)]
        tokens_right = passages.count(quotation.passage)
        tokens_cited = len(passages) - passages.count(None)
        is_right = 2 * tokens_right > len(passages)
        found += tokens_cited > 0
        right += is_right
        long += len(passages) >= threshold
        long_right += len(passages) >= threshold and is_right
        right_of_found += 2 * tokens_right > tokens_cited
    return Agreement(
        answers=1,
        both=sum(quoted is not None and c is not None for quoted, c in zip(quoted_from, cited_from, strict=True)),
        cited=len(cited_from) - cited_from.count(None),
        quoted=len(quoted_from) - quoted_from.count(None),
        quotations=len(answer.quotations),
        found=found,
        right=right,
        long=long,
        long_right=long_right,
        right_of_found=right_of_found,
    )


def total(parts: Iterable[Agreement]) -> Agreement:
    """The counts of several answers together."""
    rows = [[getattr(part, name) for name in Agreement.__slots__] for part in parts]
    return Agreement(*map(sum, zip(*rows, strict=True))) if rows else Agreement()


def _visible(text: str, start: int, end: int) -> tuple[int, int] | None:
    """A token's span without the white space around it; None for white space alone."""
    token = text[start:end]
    first = start + len(token) - len(token.lstrip())
    return (first, first + len(token.strip())) if token.strip() else None


def _passage(token: tuple[int, int], spans: Sequence[Quotation]) -> int | None:
    return next((span.passage for span in spans if _overlap(token, span)), None)


def _overlap(token: tuple[int, int], span: Quotation) -> bool:
    return token[0] < span.end and span.start < token[1]
