"""Which documents mention some words: all of them, counted, from the lexical index.

The words must stand together; the last one may go on (`hotel` finds *hotels*). If they stand together nowhere, the
documents that have all of them in one chunk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from retriever import lexical
from retriever.search.fusion import passage
from retriever.stores import records
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
    connection: sqlite3.Connection,
    collection: str,
    words: str,
    together: bool,
    allowed: str = "",
    parameters: Sequence[object] = (),
) -> list[Mention]:
    """Those of one snapshot, in no order. `allowed`: an SQL subquery of chunk rows to choose from."""
    expression = lexical.mention_expression(words, together=together)
    if expression is None:
        return []
    restricted = f"AND lexical.rowid IN ({allowed})" if allowed else ""
    first = connection.execute(
        "SELECT c.row, min(c.ordinal), count(*) FROM lexical JOIN chunks c ON c.row = lexical.rowid "
        f"WHERE lexical MATCH ? {restricted} GROUP BY c.document",
        (expression, *parameters),
    ).fetchall()
    chunks = records.chunks_at(connection, [row for row, _, _ in first])
    return [
        Mention(passage(chunks[row], (chunks[row].document_id, ordinal, collection), float(count), 1), count)
        for row, ordinal, count in first
    ]
