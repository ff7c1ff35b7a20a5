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
MOST = 20
"""Greatest number behind a noun that tells things apart: week 2, hall 3."""
SHORTEST = 4
"""Letters of such a noun."""


def is_paired_otherwise(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether what a claim says stands in a part about another number of what was asked, and not in the part about that
    number, which says something else."""
    asked = _tells(question.words)
    if statement.row is not None or claim.negations or negations(question.words) or len(asked) != 1:
        return False
    parts = [words for part in _PARTS.split(statement.text) if (words := words_of(part))]
    told = [(_tells(words), _content(words, question)) for words in parts]
    here = frozenset[str]().union(*(words for tells, words in told if asked & tells))
    others = [words for tells, words in told if tells and not asked & tells and _kinds(tells) == _kinds(asked)]
    known, said = _content(question.words, question), _content(claim.said, question)
    if claim.verdict == "yes":
        own = {word for word in known if not near(word, here)}
    else:
        own = {word for word in said if not near(word, known)}
    return (
        any(not near(word, known | said) for word in here)
        and bool(own)
        and all(any(near(word, words) for words in others) for word in own)
        and not any(near(word, here) for word in own)
    )


def _content(words: Sequence[str], question: Question) -> frozenset[str]:
    """Content words, without what tells things apart."""
    plain = [word for word in words if word not in _NTH and not word[0].isdigit()]
    return frozenset(question.vocabulary.content(plain))


def _tells(words: Sequence[str]) -> set[tuple[str, int]]:
    """The numbers that tell things apart: ("", 2) of "the second week", ("week", 2) of "week 2"."""
    found = {("", _NTH[word]) for word in words if word in _NTH}
    for before, word in pairwise(words):
        if word.isdecimal() and int(word) <= MOST and before.isalpha() and len(before) >= SHORTEST:
            found.add((before, int(word)))
    return found


def _kinds(tells: set[tuple[str, int]]) -> set[str]:
    return {kind for kind, _ in tells}
