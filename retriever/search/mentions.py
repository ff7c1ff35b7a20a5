"""Which documents mention some words: all of them, counted, from the lexical index.

The words must stand together; the last one may go on (`hotel` finds *hotels*). If they stand together nowhere, the
documents that have all of them in one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.lexical import bm25
from retriever.lexical.terms import MAX_WORDS, tokens
from retriever.search.fusion import passage
from retriever.stores.protocol import Snapshot
from retriever.stores.records import ChunkRecord
from retriever.types import Passage


@dataclass(frozen=True, slots=True)
class Mention:
    """A document that mentions the words: its first such chunk, and the number of such chunks."""

    passage: Passage
    chunks: int


@dataclass(frozen=True, slots=True)
class Mentions:
    """Documents that mention some words, those with the most chunks first.

    Attributes:
        documents: the number of documents that were searched.
        together: whether the words stand together, as they were given.
    """

    found: list[Mention]
    documents: int
    together: bool


def mentions(
    snapshot: Snapshot,
    collection: str,
    words: str,
    together: bool,
    where: Mapping[str, Any] | None = None,
) -> list[Mention]:
    """Those of one snapshot, in no order. `where`: a filter on documents."""
    asked = tokens(words)[:MAX_WORDS]
    rows = bm25.containing(snapshot, asked, together)
    if where and rows:
        rows = np.intersect1d(rows, snapshot.passing(where)).tolist()
    by_document: dict[str, list[ChunkRecord]] = {}
    for record in snapshot.chunks_at(rows).values():
        parts = " ".join((record.title, *record.chunk.heading)), record.chunk.text
        if _has([tokens(part) for part in parts], asked, together):
            by_document.setdefault(record.document_id, []).append(record)
    found = []
    for document, chunks in by_document.items():
        first = min(chunks, key=lambda record: record.chunk.ordinal)
        key = (document, first.chunk.ordinal, collection)
        found.append(Mention(passage(first, key, float(len(chunks)), 1), len(chunks)))
    return found


def _has(parts: Sequence[Sequence[str]], words: Sequence[str], together: bool) -> bool:
    """Whether headings or text have the words: all of them somewhere, or in a row in one of the two."""
    if not together:
        present = [one for part in parts for one in part]
        return all(any(one.startswith(word) for one in present) for word in words)
    *first, last = words
    return any(
        list(part[n : n + len(first)]) == first and part[n + len(first)].startswith(last)
        for part in parts
        for n in range(len(part) - len(first))
    )
