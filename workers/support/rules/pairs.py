"""What one part of a sentence says of the first, and another of the second: "Jonas leads the first week, Sanne the
second" does not say that Jonas leads the second.

Of one question. Knows words; knows no claims' place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.asking import wants_person
from workers.support.words.polarity import negations, words_of
from workers.support.words.word_forms import near

_PARTS = re.compile(r"[;,](?=\s)|\s(?:and|while|und|während|en|terwijl|y|mientras|et)(?=\s)", re.IGNORECASE)
_NTH_IN_LINES = """
    first second third fourth fifth sixth
    erste zweite dritte vierte fünfte sechste
    eerste tweede derde vierde vijfde zesde
    primera segunda tercera cuarta quinta sexta
    primero segundo tercero cuarto quinto sexto
"""
_NTH = {word: n for line in _NTH_IN_LINES.strip().splitlines() for n, word in enumerate(line.split(), 1)}
_NTH |= {f"{word}{end}": n for word, n in _NTH.items() if word.endswith("te") for end in "nrsm"}
SHORTEST = 4
"""Letters of a noun before a number that tells things apart, and more than that number has: week 2, hall 3."""


def is_paired_otherwise(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether somebody whom a claim names stands in a part about another number of what was asked, and not in the part
    about that number, which names somebody else before it."""
    asked, language = _tells(question.words), question.vocabulary.language
    if statement.row is not None or claim.negations or negations(question.words) or len(asked) != 1:
        return False
    if claim.verdict or not wants_person(question.words, language):
        return False
    parts = [words for part in _PARTS.split(statement.text) if (words := words_of(part))]
    here = [words for words in parts if asked & _tells(words)]
    others = [words for words in parts if words not in here and _kinds(_tells(words)) & _kinds(asked)]
    known, said = _content(question.words, question), _content(claim.said, question)
    own = [word for word in said if not near(word, known)]
    before = frozenset[str]().union(*(_content(words[: _place(words)], question) for words in here))
    elsewhere = frozenset[str]().union(*(_content(words, question) for words in others))
    return (
        any(not near(word, known | said) for word in before)
        and bool(own)
        and all(near(word, elsewhere) for word in own)
        and not any(near(word, _content(words, question)) for word in own for words in here)
    )


def _place(words: Sequence[str]) -> int:
    """Where the first number stands that tells things apart."""
    return next((n for n, word in enumerate(words) if word in _NTH or word.isdecimal()), 0)


def _content(words: Sequence[str], question: Question) -> frozenset[str]:
    """Content words, without what tells things apart."""
    plain = [word for word in words if word not in _NTH and not word[0].isdigit()]
    return frozenset(question.vocabulary.content(plain))


def _tells(words: Sequence[str]) -> set[tuple[str, int]]:
    """The numbers that tell things apart: ("", 2) of "the second week", ("week", 2) of "week 2"."""
    found = {("", _NTH[word]) for word in words if word in _NTH}
    for before, word in pairwise(words):
        if before.isalpha() and len(before) >= SHORTEST and len(word) < SHORTEST and word.isdecimal():
            found.add((before, int(word)))
    return found


def _kinds(tells: set[tuple[str, int]]) -> set[str]:
    return {kind for kind, _ in tells}
