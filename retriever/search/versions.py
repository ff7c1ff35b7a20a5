"""Versions of one document among the passages of a search: the newest comes first. Pure.

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

from retriever.words import split

ALIKE = 0.5
"""Least share of common words of two versions of a passage (Jaccard's index)."""

_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MARKS = re.compile(
    r"(?<!\d)(?:19|20)\d\d(?:[-/.]\d\d?){0,2}(?!\d)|(?<!\w)v(?:ersion|ersie|ersión)?[ ._-]?\d+(?:\.\d+)*"
    r"|(?<!\w)(?:draft|final|old|new|updated?|copy|entwurf|endfassung|alt|neu|kopie|concept|definitief|oud|nieuw|borrador"
    r"|nuevo|nueva|copia)(?!\w)",
    re.IGNORECASE,
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Dated:
    """What is compared of a passage. `document` names its document; `date`: the document's own, ISO 8601, if any."""

    document: str
    title: str
    date: str | None
    text: str

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


def _versions(one: Dated, other: Dated) -> bool:
    if one.document == other.document or not one.when or not other.when or one.when == other.when:
        return False
    if one.family != other.family or not one.family:
        return False
    words, others = set(split(one.text)), set(split(other.text))
    return len(words & others) >= ALIKE * len(words | others)
