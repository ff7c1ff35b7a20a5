"""The one document that some words name: by its title."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retriever.dates import iso_date
from retriever.lexical import bm25
from retriever.lexical.terms import tokens
from retriever.search.versions import Dated
from retriever.stores.protocol import Snapshot
from retriever.words import split

_ENDING = re.compile(r"(?<=\w)\.[A-Za-z][A-Za-z0-9]{0,4}$")
"""Of a file's name: "Summarise opening-hours.md" means the document "Opening hours"."""


@dataclass(frozen=True, slots=True)
class Title:
    """A document whose title has the words."""

    collection: str
    document_id: str
    title: str
    date: str | None


def titled(snapshot: Snapshot, collection: str, words: str) -> list[Title]:
    """The documents of one snapshot whose titles have all of the words. The ending of a file's name does not count."""
    words = _ENDING.sub("", words)
    asked = set(split(words))
    rows = snapshot.titles_of(bm25.containing(snapshot, tokens(words), together=False)) if asked else []
    return [
        Title(collection, document, title, iso_date(date))
        for document, title, date in rows
        if asked <= set(split(title))
    ]


def the_one(titles: Sequence[Title]) -> Title | None:
    """The one with the fewest further words in its title, of several versions the newest; None if it is not one."""
    if not titles:
        return None
    sizes = [len(set(split(one.title))) for one in titles]
    facts = [Dated(one.document_id, one.title, one.date, "") for one in titles]
    families = {fact.family for fact in facts}
    if len(families) == 1 and all(fact.when for fact in facts) and len({fact.when for fact in facts}) == len(facts):
        return max(zip(facts, titles, strict=True), key=lambda pair: str(pair[0].when))[1]
    nearest = [one for one, size in zip(titles, sizes, strict=True) if size == min(sizes)]
    return nearest[0] if len(nearest) == 1 else None
