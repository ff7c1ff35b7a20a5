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

_EXPIRED_WORDS = (
    r"(?<!\w)(?:out of date|outdated|superseded|obsolete|no longer valid|expired|veraltet|überholt|ungültig|aufgehoben"
    r"|nicht mehr gültig|verouderd|achterhaald|vervallen|niet meer geldig|obsoleto|obsoleta|caducad[oa]|derogad[oa]"
    r"|ya no válid[oa]|obsolète|périmée?|plus valable)(?!\w)"
)
_EXPIRED = re.compile(rf"[(\[:–—-][^()\[\]]*{_EXPIRED_WORDS}|\w\W+{_EXPIRED_WORDS}\W*$", re.IGNORECASE)
"""In brackets, behind a colon or dash, or at the end of a title: "Expired passports" is no expired document."""
_OF_THE_PAST = re.compile(
    r"\b(?:previous\w*|former\w*|earlier|histor\w*"
    r"|(?:last|past) (?:year|month|season|week|winter|summer|spring|autumn|time)s?"
    r"|used to|original\w*|back then|years? ago|changed|changes|differences?|compar\w*|(?:the|our|your|an) old(?:er)?"
    r"|all|each|every|total|overall"
    r"|früher\w*|vorher\w*|bisher\w*|vorig\w*|vergangen\w*|letzte\w? (?:jahr|monat|saison|woche|winter|sommer|mal)\w*"
    r"|damals|ehemal\w*|ursprünglich\w*|geändert|änderung\w*|unterschied\w*|vergleich\w*"
    r"|(?:die|der|das|den|dem|des) alte\w?|alle\w?|jede\w?|insgesamt"
    r"|vroeger\w*|eerder\w*|vorige?|verleden|afgelopen|voormalig\w*|oorspronkelijk\w*|destijds|veranderd|gewijzigd"
    r"|wijziging\w*|verschil\w*|vergelijk\w*|(?:de|het) oude|elke?|iedere?|totaal"
    r"|anterior\w*|antigu[oa]s?|pasad[oa]s?|cambiad[oa]|cambios?|diferencias?|compara\w*|todos|todas|cada"
    r"|précédente?s?|ancien\w*|derni[eè]re?s?|changé|changements?|différences?|tous|toutes|chaque)\b",
    re.IGNORECASE,
)
"""What held before is asked for, or what holds in all: then no version is left out."""
_RELATED = 0.25
"""Least share of common words of a document that is out of date and one that stands for it."""
_PERIOD = re.compile(r"(?<!\d)(?:19|20)\d\d[-/.]\d\d?(?!\d)|(?<!\d)\d\d?[-/.](?:19|20)\d\d(?!\d)")
"""In a title: reports of months, which are no versions of each other."""

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

    All are kept for a question that names a year, or asks for the past or for all there is; and so is one that has a
    word of the question that no other has beside all its others, or none of its words: last month's invoice says
    something else than this month's.

    Args:
        language: of the question, an ISO 639-1 code.
    """
    if _YEAR.search(question) or _OF_THE_PAST.search(question) or re.search(_EXPIRED_WORDS, question, re.IGNORECASE):
        return list(ranked)
    facts = [dated(item) for item in ranked]
    words = Words(language)
    told = set(words.content(set(split(question))))
    has = [told.intersection(words.content(set(split(f"{one.title} {one.text}")))) for one in facts]
    expired = [bool(_EXPIRED.search(one.title)) for one in facts]

    def replaced(n: int) -> bool:
        others = [facts[k] for k in range(len(facts)) if k != n and not expired[k] and has[k] >= has[n]]
        if expired[n]:
            return any(_alike(facts[n], other) >= _RELATED for other in others)
        return any(_versions(facts[n], other) and _is_older(facts[n], other) for other in others)

    return [item for n, item in enumerate(ranked) if not (has[n] and replaced(n))]


def _is_older(one: Dated, other: Dated) -> bool:
    """Whether its date is before the other's as far as both say it, and no title says of which month it is."""
    first, second = str(one.when), str(other.when)
    size = min(len(first), len(second))
    return first[:size] < second[:size] and not (_PERIOD.search(one.title) and _PERIOD.search(other.title))


def _versions(one: Dated, other: Dated) -> bool:
    if one.document == other.document or not one.when or not other.when or one.when == other.when:
        return False
    if one.family != other.family or not one.family:
        return False
    return _alike(one, other) >= ALIKE


def _alike(one: Dated, other: Dated) -> float:
    """Share of common words (Jaccard's index)."""
    words, others = set(split(one.text)), set(split(other.text))
    return len(words & others) / max(len(words | others), 1)
