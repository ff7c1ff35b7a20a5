"""Marked quotations and how well citations agree with them, token by token. Pure.

An answer's reference marks what it quotes as `[ N text ]`, N being the passage, counted from 1. The markers are taken
out, nothing else is changed, and what is left is cited as an answer would be. Tokens of white space count nowhere.

Knows tokens with their characters, marks and what was cited; knows no tokenizer and not how anything is cited.
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
    """An answer without its markers, and what they marked, in its order."""

    text: str
    quotations: tuple[Quotation, ...]


def read_marks(reference: str) -> MarkedAnswer:
    """Take the markers out of a reference."""
    text, quotations, behind = "", [], 0
    for mark in _MARK.finditer(reference):
        text += reference[behind : mark.start()]
        quotations.append(Quotation(len(text), len(text) + len(mark[2]), int(mark[1]) - 1))
        text += mark[2]
        behind = mark.end()
    return MarkedAnswer(text + reference[behind:], tuple(quotations))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of tokens and quotations; sums of several answers are their counts' sums.

    Attributes:
        both, cited, quoted: tokens that are quoted and cited; cited; quoted. Whichever passage is cited.
        quotations, found, right: marked quotations; those with a cited token; those with more than half of their
            tokens cited to the passage marked.
        long, long_right: of the quotations and the right ones, those that have at least as many tokens as the
            threshold for citations.
        right_of_found: found quotations most of whose cited tokens are cited to the passage marked.
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
    """Compare what is cited with what is marked in one answer.

    Args:
        spans: (start, end) of the answer's tokens, in code points.
        cited: what is cited, and from which passage; no two overlap.
        threshold: fewest tokens of what can be cited.
    """
    tokens = [visible for span in spans if (visible := _visible(answer.text, *span))]
    marked = [_passage(token, answer.quotations) for token in tokens]
    told = [_passage(token, cited) for token in tokens]
    found = right = long = long_right = right_of_found = 0
    for quotation in answer.quotations:
        said = [passage for token, passage in zip(tokens, told, strict=True) if _overlap(token, quotation)]
        good = said.count(quotation.passage)
        some = len(said) - said.count(None)
        is_right = 2 * good > len(said)
        found += some > 0
        right += is_right
        long += len(said) >= threshold
        long_right += len(said) >= threshold and is_right
        right_of_found += 2 * good > some
    return Agreement(
        answers=1,
        both=sum(m is not None and t is not None for m, t in zip(marked, told, strict=True)),
        cited=len(told) - told.count(None),
        quoted=len(marked) - marked.count(None),
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
    """A token's characters without the white space around them; None where nothing is left."""
    shown = text[start:end]
    left = start + len(shown) - len(shown.lstrip())
    return (left, left + len(shown.strip())) if shown.strip() else None


def _passage(token: tuple[int, int], spans: Sequence[Quotation]) -> int | None:
    return next((span.passage for span in spans if _overlap(token, span)), None)


def _overlap(token: tuple[int, int], span: Quotation) -> bool:
    return token[0] < span.end and span.start < token[1]
