"""What a sentence says of what was asked beside a claim's value: "Late returns cost 2 euros a day, for the telescope 5
euros" does not say that the telescope costs 2, and "parking costs 2 euros; it is free for members" that members pay.

Of one question. Parts of sentences are compared, and whole sentences with others. Knows words; knows no claims' place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.numbers import forms
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import says_no
from workers.support.words.units import COUNT, FREE_OF_CHARGE, HOW_MANY, MONEY, counted, kind_of
from workers.support.words.word_forms import near

_PARTS = re.compile(
    r"[;:,](?=\s)|\s(?:and|but|while|whereas|und|aber|sondern|während|en|maar|terwijl|y|pero)(?=\s)", re.IGNORECASE
)
_SIGN = re.compile(r"[€£$]\s?(\d[\d.,]*)|(\d[\d.,]*)\s?[€£$]")
"""An amount with the sign of a currency."""
_REFUSED_IN_LINES = """
    rejected refused declined denied cancelled abolished
    abgelehnt abgesagt abgeschafft verweigert gestrichen
    afgewezen geweigerd afgelast afgeschaft geannuleerd
    rechazado rechazada cancelado cancelada denegado denegada
"""
_REFUSED = frozenset(_REFUSED_IN_LINES.split())
_GOES_ON_IN_LINES = """
    which that who it they der die das welche welcher er sie es deze die dat dit hij zij ze el la que then dann dan
"""
_GOES_ON = frozenset(_GOES_ON_IN_LINES.split())
"""What a part begins with that goes on about the part before."""
_UNLESS = re.compile(r"\b(?:unless|except|außer|tenzij|behalve|es sei denn|salvo|excepto)\b", re.IGNORECASE)
LEAST = 2
"""Fewest words of a question that another sentence has all of."""


class _Part(NamedTuple):
    """A part of a sentence: its content words, its numbers by what they measure, and whether it says free of charge."""

    words: frozenset[str]
    numbers: frozenset[tuple[str, str]]
    free: bool

    @property
    def kinds(self) -> set[str]:
        return {kind for kind, _ in self.numbers} | ({MONEY} if self.free else set())


def is_valued_otherwise(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether the parts of a sentence with a claim's numbers lack a word of the question that another part has, with
    another number of the same unit, or with "free" where they have a price."""
    known = forms(question.words) if claim.verdict != "yes" else set()
    own = forms(claim.said) - known
    parts = _parts(statement.text, question)
    holding = [part for part in parts if any(number in own for _, number in part.numbers)]
    kinds = {kind for part in holding for kind, number in part.numbers if number in own}
    here = set().union(*(_asked_of(part, parts, question) for part in holding))
    for part in parts if holding else []:
        others = {number for kind, number in part.numbers if kind in kinds}
        if part in holding or not (others or (part.free and MONEY in kinds)) or others & (own | forms(question.words)):
            continue
        there = _asked_in([part], question)
        lacks = here - there
        named = any(near(name, frozenset(lacks)) for name in question.names)
        if there - here and not (lacks and named) and (not lacks or parts.index(part) > parts.index(holding[0])):
            return True
    return False


def is_free_for_whom_was_asked(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether a claim says that somebody pays, and a sentence, behind its price, that it is free for them."""
    pays = not question.vocabulary.pricing.isdisjoint(question.content)
    if not pays or claim.negations or negations(question.words) or not FREE_OF_CHARGE.isdisjoint(question.words):
        return False
    parts = _parts(statement.text, question)
    priced = [number for number, part in enumerate(parts) if MONEY in part.kinds and not part.free]
    before = priced[-1] + 1 if priced else len(parts)
    behind = [part for part in parts[before:] if part.free]
    return bool(_asked_in(behind, question) - _asked_in(parts[:before], question))


def is_refused_elsewhere(claim: Claim, statement: Statement, around: Iterable[Statement], question: Question) -> bool:
    """Whether another sentence has what this one lacks of what was asked, about the same, and says no to it; or this
    one says that it was refused: "The steam bath cannot be moved" beside "A visit can be moved once"."""
    lacking = [word for word in question.asked if not near(word, statement.words | statement.heading)]
    if not lacking and _is_refused(words_of(statement.text)) and not _is_refused([*claim.said, *question.words]):
        return True
    if not lacking or len(question.asked) < LEAST or negations(question.words) or _says_no(statement.text):
        return False
    return any(
        one.row is None
        and one.passage == statement.passage
        and all(near(word, one.words) for word in lacking)
        and all(near(word, one.words | one.above | statement.words) for word in question.asked)
        and any(near(word, one.words) and near(word, statement.words) for word in question.asked)
        and _says_no(one.text)
        for one in around
    )


def is_valued_elsewhere(claim: Claim, statement: Statement, around: Iterable[Statement], question: Question) -> bool:
    """Whether another sentence has all that was asked, where this one lacks some of it, and other numbers of the unit
    of a claim's: "Evening visits cost 5 euros per pupil" beside "3.50 euros per pupil"."""
    asked = _named(question)
    own = forms(claim.said) - forms(question.words)
    here = [part for part in _parts(statement.text, question) if any(number in own for _, number in part.numbers)]
    kinds = {kind for part in here for kind, number in part.numbers if number in own}
    around_it = statement.around if statement.row is None else statement.above.union(*statement.row.above)
    if statement.row is not None and not question.vocabulary.pricing.isdisjoint(question.content):
        kinds = {MONEY}  # a cell has the number alone
    if not kinds or len(asked) < LEAST or all(near(word, around_it | statement.words) for word in asked):
        return False
    for one in around:
        if one.row is not None or one is statement or not all(near(word, one.words) for word in asked):
            continue
        found = {number for part in _parts(one.text, question) for kind, number in part.numbers if kind in kinds}
        if found - forms(question.words) and not found & own:
            return True
    return False


def _parts(text: str, question: Question) -> list[_Part]:
    found: list[_Part] = []
    for part in _PARTS.split(_SIGN.sub(r" \1 \2 euro ", text)):
        if words := words_of(part):
            read = _read(words, question)
            before = found[-1].words if found and words[0] in _GOES_ON else frozenset()
            found.append(read._replace(words=read.words | before))
    return found


def _asked_of(part: _Part, parts: Sequence[_Part], question: Question) -> set[str]:
    """What was asked among the words of a part, or, if there is nothing of it, of those before."""
    own = _asked_in([part], question)
    return own or _asked_in(parts[: parts.index(part)], question)


def _read(words: list[str], question: Question) -> _Part:
    counting = not HOW_MANY.isdisjoint(question.words)
    found: set[tuple[str, str]] = set()
    for number, behind in counted(words):
        kind = kind_of(number, behind)
        if kind is not None and (kind != COUNT or counting):
            found.update((kind, form) for form in forms([number]))
    free = not FREE_OF_CHARGE.isdisjoint(words) and not negations(words)
    return _Part(frozenset(question.vocabulary.content(words)), frozenset(found), free)


def _asked_in(parts: Iterable[_Part], question: Question) -> set[str]:
    there = frozenset().union(*(part.words for part in parts))
    return {word for word in _named(question) if near(word, there)}


def _named(question: Question) -> list[str]:
    """What was asked about: without prices and numbers."""
    return [word for word in question.asked if word not in question.vocabulary.pricing and not word[0].isdigit()]


def _is_refused(words: Sequence[str]) -> bool:
    return not _REFUSED.isdisjoint(words) and not negations([*words]) % 2


def _says_no(text: str) -> bool:
    """What a sentence says before its exceptions."""
    words = words_of(_UNLESS.split(text)[0])
    return bool(negations(words) % 2) != (says_no(words) or _is_refused(words))
