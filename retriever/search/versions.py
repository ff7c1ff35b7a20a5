"""Versions of one document among the passages of a search: the newest comes first, and answers use it alone. Pure.

Two passages are versions of each other if their documents' titles differ in nothing but dates, version numbers and
words such as "draft", if they share most of their words, and if each document has a date: its own
(`metadata["date"]`), or a year in its title. So next year's policy comes before last year's, and the policy of another
town stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from retriever.types import Passage
from retriever.words import Words, split

ALIKE = 0.5
"""Least share of common words of two versions of a passage (Jaccard's index)."""

_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MARKS = re.compile(
    r"(?<!\d)(?:19|20)\d\d(?:[-/.]\d\d?){0,2}(?!\d)|(?<!\w)v(?:ersion|ersie|ersión)?[ ._-]?\d+(?:\.\d+)*"
    r"|(?<!\w)(?:draft|final|old|new|updated?|copy|entwurf|endfassung|alt|neu|kopie|concept|definitief|oud|nieuw|borrador"
    r"|nuevo|nueva|copia)(?!\w)",
    re.IGNORECASE,
)

_EXPIRED = re.compile(
    r"(?<!\w)(?:out of date|outdated|superseded|obsolete|no longer valid|expired|veraltet|überholt|ungültig|aufgehoben"
    r"|nicht mehr gültig|verouderd|achterhaald|vervallen|niet meer geldig|obsoleto|obsoleta|caducad[oa]|derogad[oa]"
    r"|ya no válid[oa]|obsolète|périmée?|plus valable)(?!\w)",
    re.IGNORECASE,
)
_OF_THE_PAST_IN_LINES = """
    previous previously before earlier former formerly old older changed change changes difference differences compare
    compared history
    früher früheren vorher bisher bisherige alt alte alten alter altes damals geändert änderung änderungen unterschied
    unterschiede vergleich vergleiche
    vroeger eerder vorige vorig oud oude destijds veranderd gewijzigd wijziging wijzigingen verschil verschillen
    vergelijk
    antes anterior anteriores antiguo antigua cambiado cambio cambios diferencia diferencias
    avant précédent précédente ancien ancienne changé changement différence
"""
_OF_THE_PAST = frozenset(_OF_THE_PAST_IN_LINES.split())
"""Who uses one of these words may ask for what held before."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Dated:
    """What is compared of a passage. `document` names its document; `date`: the document's own, ISO 8601, if any."""

    document: str
    title: str
    date: str | None
    text: str

    @classmethod
    def of(cls, passage: Passage) -> Dated:
        return cls(f"{passage.collection}/{passage.document_id}", passage.title, passage.date, passage.text)

    @property
    def when(self) -> str | None:
        years = _YEAR.findall(self.title)
        return self.date or (max(years) if years else None)

    @property
    def family(self) -> tuple[str, ...]:
        return tuple(split(_MARKS.sub(" ", self.title)))


def newest_first(ranked: Sequence[Item], dated: Callable[[Item], Dated], question: str) -> list[Item]:
    """The same items; where some are versions of each other, the newest takes the best of their places, and so on.

    Where the question names the year of one of them, that one is taken for the newest.
    """
    facts = [dated(item) for item in ranked]
    years = set(_YEAR.findall(question))
    order = list(range(len(ranked)))
    done: set[int] = set()
    for first, one in enumerate(facts):
        if first in done:
            continue
        group = [first, *(n for n in range(first + 1, len(facts)) if n not in done and _versions(one, facts[n]))]
        done.update(group)
        best = sorted(group, key=lambda n: str(facts[n].when), reverse=True)
        best.sort(key=lambda n: str(facts[n].when)[:4] not in years)
        for place, n in zip(group, best, strict=True):
            order[place] = n
    return [ranked[n] for n in order]


def in_force(ranked: Sequence[Item], dated: Callable[[Item], Dated], question: str, language: str) -> list[Item]:
    """The items without those that a newer version replaces, or whose title says that they are out of date.

    All are kept for a question that names a year or asks for the past; and so is one that has a word of the question
    that no other has beside all its others: last month's invoice says something else than this month's.

    Args:
        language: of the question, an ISO 639-1 code.
    """
    asked = set(split(question))
    if _YEAR.search(question) or not asked.isdisjoint(_OF_THE_PAST):
        return list(ranked)
    facts = [dated(item) for item in ranked]
    words = Words(language)
    told = set(words.content(asked))
    has = [told.intersection(words.content(set(split(f"{one.title} {one.text}")))) for one in facts]
    expired = [bool(_EXPIRED.search(one.title)) for one in facts]
    kept = []
    for n, one in enumerate(facts):
        others = [k for k in range(len(facts)) if k != n and not expired[k] and has[k] >= has[n]]
        newer = any(_versions(one, facts[k]) and str(facts[k].when) > str(one.when) for k in others)
        if not (newer or (expired[n] and others)):
            kept.append(ranked[n])
    return kept


def _versions(one: Dated, other: Dated) -> bool:
    if one.document == other.document or not one.when or not other.when or one.when == other.when:
        return False
    if one.family != other.family or not one.family:
        return False
    words, others = set(split(one.text)), set(split(other.text))
    return len(words & others) >= ALIKE * len(words | others)
