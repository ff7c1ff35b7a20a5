"""What a sentence says of what was asked beside a claim's value: "Late returns cost 2 euros a day, for the telescope 5
euros" does not say that the telescope costs 2, and "parking costs 2 euros; it is free for members" that members pay.

Of one question. Only parts of sentences count that have nothing but words of the question and a value: what else they
name may be another thing, another day, or whom else it is for. Knows words; knows no claims' place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.numbers import forms
from workers.support.words.polarity import negations, words_of
from workers.support.words.units import (
    COUNT,
    CURRENCIES,
    EXTRA,
    FREE_OF_CHARGE,
    HOW_MANY,
    MONEY,
    UNITS,
    counted,
    kind_of,
    with_currencies,
)
from workers.support.words.vocabulary import Vocabulary
from workers.support.words.word_forms import near

_PARTS = re.compile(r"[;:,](?=\s)|\s(?:and|but|und|aber|en|maar|y|pero)(?=\s)", re.IGNORECASE)
_REFUSED = re.compile(
    r"\b(?:(?:was|were|is|are|has been|have been)\s+(?:\w+\s+){0,2}?(?:rejected|refused|declined|cancelled|abolished)"
    r"(?=\W*$|[.,;:]|\s+(?:by|because|as|at|in|on|last|this|due|since))"
    r"|(?:wurden?|ist|sind)\s+(?:\w+\s+){0,5}?(?:abgelehnt|abgesagt|abgeschafft|gestrichen)"
    r"|(?:werd|werden|is|zijn)\s+(?:\w+\s+){0,5}?(?:afgewezen|geweigerd|afgelast|afgeschaft|geannuleerd)"
    r"|(?:fue|fueron|ha sido)\s+(?:rechazad|cancelad|denegad)[oa]s?)\b",
    re.IGNORECASE,
)
_PERHAPS = re.compile(
    r"\b(?:may|can|could|if|when|or|otherwise|kann|können|wenn|falls|oder|sonst|kan|kunnen|als|indien|anders)\b",
    re.IGNORECASE,
)
"""Words of a sentence in which something is not refused for good."""
_OTHER_TIMES = re.compile(
    r"\b(?:was|were|until|formerly|war|waren|bis|früher|tot|vroeger|less|more|weniger|mehr|minder|meer"
    r"|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
"""Words of a sentence with an earlier price, or a difference."""
_THAT = re.compile(r"\b(?:that|dass|dat|que)\b", re.IGNORECASE)
LEAST = 2
"""Fewest words of a question that another sentence has all of."""


class _Part(NamedTuple):
    """A part of a sentence.

    words: its content words.
    numbers: each with what it measures.
    free: it says that something is free of charge.
    measures: the units in it.
    """

    words: frozenset[str]
    numbers: frozenset[tuple[str, str]]
    free: bool
    measures: frozenset[str]


def is_valued_otherwise(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether a part behind the one with a claim's number has another number of the same unit, or "free" where that is
    a price, and nothing else but words of the question that the one lacks."""
    if question.double:
        return False
    known = set[str]() if claim.verdict == "yes" else forms(question.words)
    own, parts = forms(claim.said) - known, _parts(statement.text, question)
    holding = [n for n, part in enumerate(parts) if any(number in own for _, number in part.numbers)]
    kinds = {kind for n in holding for kind, number in parts[n].numbers if number in own}
    here = frozenset().union(*(parts[n].words for n in range(holding[-1] + 1))) if holding else frozenset[str]()
    measures = frozenset().union(*(parts[n].measures for n in holding)).union(question.words)
    for part in parts[holding[-1] + 1 :] if holding else []:
        others = {number for kind, number in part.numbers if kind in kinds}
        if not (others or (part.free and MONEY in kinds)) or others & (own | forms(question.words)):
            continue
        measured = {number for kind, number in part.numbers if kind not in kinds} - forms(question.words)
        if not measured and part.measures <= measures and _is_only_of_what_was_asked(part, here, question):
            return True
    return False


def is_valued_before(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether a part has all that was asked, nothing else, and another number of the same unit, where the one with a
    claim's number, behind it, is about something else: "Room B has 40 seats, room A has 12 seats"."""
    if question.double or not (asked := _named(question)):
        return False
    own, parts = forms(claim.said) - forms(question.words), _parts(statement.text, question)
    holding = [n for n, part in enumerate(parts) if any(number in own for _, number in part.numbers)]
    pricing = question.vocabulary.pricing
    rest = _rest(here := parts[holding[0]], question) - pricing if holding else frozenset[str]()
    said = frozenset(question.vocabulary.content(claim.said))
    if not rest or any(near(word, said) for word in rest):
        return False  # it is about what was asked, or the claim says what else it is about
    kinds = {kind for kind, number in here.numbers if number in own}
    return any(
        {kind for kind, _ in part.numbers} == kinds
        and not any(number in own for _, number in part.numbers)
        and not (_rest(part, question) - pricing)
        and all(near(word, part.words | statement.above) for word in asked)
        and not all(near(word, here.words) for word in asked)
        for part in parts[: holding[0]]
    )


def is_free_for_whom_was_asked(claim: Claim, statement: Statement, question: Question) -> bool:
    """Whether a claim says that somebody pays, and a sentence, behind its price, that it is free for them."""
    pays = not question.vocabulary.pricing.isdisjoint(question.content)
    if not pays or claim.negations or negations(question.words) or not FREE_OF_CHARGE.isdisjoint(question.words):
        return False
    parts = _parts(statement.text, question)
    priced = [n for n, part in enumerate(parts) if any(kind == MONEY for kind, _ in part.numbers)]
    before = priced[-1] + 1 if priced else len(parts)
    here = frozenset().union(*(part.words for part in parts[:before]))
    return any(part.free and _is_only_of_what_was_asked(part, here, question) for part in parts[before:])


def is_refused_elsewhere(claim: Claim, statement: Statement, around: Iterable[Statement], question: Question) -> bool:
    """Whether a sentence that has all that was asked, and nothing else, says no to it, where this one lacks some of it;
    or one with all of it says that it was refused."""
    if len(question.asked) < LEAST or negations(question.words) or _REFUSED.search(question.text):
        return False
    there, said = statement.words | statement.above, " ".join(claim.said)
    lacking = [word for word in question.asked if not near(word, there)]
    for one in around:
        if one.row is not None or one.passage != statement.passage:
            continue
        has_all = all(near(word, one.words | one.above) for word in question.asked)
        refused = has_all and (lacking or one is statement) and _is_refused(one, question)
        if refused and not _REFUSED.search(said):
            return True
        if has_all and lacking and all(near(word, one.words) for word in lacking):
            nothing_else = all(near(word, question.asked | one.above) for word in one.words)
            if nothing_else and negations(words_of(one.text)) % 2:
                return True
    return False


def is_valued_elsewhere(claim: Claim, statement: Statement, around: Iterable[Statement], question: Question) -> bool:
    """Whether a part of another sentence has all that was asked, where this one lacks some of it, and other numbers of
    the unit of a claim's: "Evening visits cost 5 euros per pupil" beside "3.50 euros per pupil"."""
    asked = _named(question)
    own = forms(claim.said) - forms(question.words)
    kinds = {kind for part in _parts(statement.text, question) for kind, number in part.numbers if number in own}
    there = statement.around if statement.row is None else statement.above.union(*statement.row.above)
    if statement.row is not None and not question.vocabulary.pricing.isdisjoint(question.content):
        kinds = {MONEY}  # a cell has the number alone
    if not kinds or question.double or len(asked) < LEAST or all(near(word, there | statement.words) for word in asked):
        return False
    for one in around:
        if one.row is not None or one is statement or not all(near(word, one.words) for word in asked):
            continue
        if _OTHER_TIMES.search(one.text) or not EXTRA.isdisjoint(words_of(one.text)):
            continue
        for part in _parts(one.text, question):
            found = {number for kind, number in part.numbers if kind in kinds} - forms(question.words)
            alone = not _rest(part, question) - question.vocabulary.pricing
            if found and not found & own and alone and all(near(word, part.words) for word in asked):
                return True
    return False


def _is_only_of_what_was_asked(part: _Part, here: frozenset[str], question: Question) -> bool:
    """Whether a part has a word of the question that those before it lack, and no word of its own but values."""
    return not _rest(part, question) and any(
        near(word, part.words) and not near(word, here) for word in _named(question)
    )


def _rest(part: _Part, question: Question) -> frozenset[str]:
    """Words of a part that neither were asked nor belong to values; words for prices are among them."""
    asked = question.asked.difference(question.vocabulary.pricing)
    rest = part.words - asked - _measuring(question.vocabulary.language)
    return frozenset(word for word in rest if not word[0].isdigit())


@cache
def _measuring(language: str) -> frozenset[str]:
    """Content words of values."""
    return frozenset(Vocabulary(language).content(sorted(UNITS | CURRENCIES | FREE_OF_CHARGE)))


def _parts(text: str, question: Question) -> list[_Part]:
    return [_read(words, question) for part in _PARTS.split(with_currencies(text)) if (words := words_of(part))]


def _read(words: list[str], question: Question) -> _Part:
    counting = not HOW_MANY.isdisjoint(question.words)
    found: set[tuple[str, str]] = set()
    for number, behind in counted(words):
        kind = kind_of(number, behind)
        if kind is not None and (kind != COUNT or counting):
            found.update((kind, form) for form in forms([number]))
    free = not FREE_OF_CHARGE.isdisjoint(words) and not negations(words)
    content = frozenset(question.vocabulary.content(words))
    return _Part(content, frozenset(found), free, UNITS.intersection(words) - CURRENCIES)


def _named(question: Question) -> list[str]:
    """What was asked about: without prices and numbers."""
    return [word for word in question.asked if word not in question.vocabulary.pricing and not word[0].isdigit()]


def _is_refused(statement: Statement, question: Question) -> bool:
    """Whether a sentence says of what was asked, and nothing else, that it was refused: "They said that … was." """
    refused = _REFUSED.search(statement.text)
    if refused is None or _PERHAPS.search(statement.text) or negations(words_of(statement.text)) % 2:
        return False
    what = question.vocabulary.of(_THAT.split(statement.text[: refused.start()])[-1])
    return all(near(word, question.asked | statement.above) for word in what)
