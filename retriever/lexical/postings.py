"""The lexical index's tables: for each term, the chunks that have it, with how often and how long they are.

Knows SQL and the form of an entry; knows no ranking. A term's entries lie in blocks of `BLOCK` chunk rows, so that a
change reads and writes the blocks of its own rows only. Terms that no chunk has any more are deleted.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.lexical import lengths as document_lengths
from retriever.lexical.lexicon import BLOCK, DOCUMENT, ENTRY, Documents, Entries, Lengths
from retriever.lexical.terms import term, tokens

HEADING_WEIGHT = 2
"""A word of the title or a heading counts as many of the text."""
_BATCH = 500

SCHEMA = f"""
CREATE TABLE terms (id INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE);
CREATE TABLE postings (
    term INTEGER NOT NULL, block INTEGER NOT NULL, entries BLOB NOT NULL, PRIMARY KEY (term, block)
);
CREATE TABLE document_terms (document INTEGER PRIMARY KEY, language TEXT NOT NULL, terms BLOB NOT NULL);
CREATE INDEX document_terms_language ON document_terms(language);
{document_lengths.SCHEMA};
CREATE TABLE lexical_totals (chunks INTEGER NOT NULL, tokens INTEGER NOT NULL);
INSERT INTO lexical_totals VALUES (0, 0)
"""


@dataclass(frozen=True, slots=True)
class NewText:
    """A chunk to index. `heading`: its document's title and its headings."""

    row: int
    heading: str
    text: str


class Tables:
    """The lexicon of a collection's file, within the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def totals(self) -> tuple[int, int]:
        return totals(self.connection)

    def languages(self) -> list[str]:
        return languages(self.connection)

    def lengths(self) -> Lengths:
        return document_lengths.read(self.connection)

    def document_lengths(self) -> Documents:
        return Documents(self.lengths())

    def entries_of(self, terms: Iterable[str], prefixes: Iterable[str] = ()) -> Entries:
        return entries_of(self.connection, terms, prefixes)

    def counts_of(self, terms: Iterable[str]) -> dict[str, int]:
        return counts_of(self.connection, terms)


def counted(language: str, texts: Iterable[NewText]) -> tuple[dict[str, list[tuple[int, int, int]]], int]:
    """For each term of a document's chunks its entries, as `ENTRY` has them, by row; and the number of words."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    size = 0
    for one in texts:
        heading, text = tokens(one.heading), tokens(one.text)
        counts = Counter(text)
        for word in heading:
            counts[word] += HEADING_WEIGHT
        length = min(len(heading) + len(text), 65535)
        size += length
        by_term: Counter[str] = Counter()
        for word, count in counts.items():
            by_term[term(word, language)] += count
        for key, count in by_term.items():
            found.setdefault(key, []).append((one.row, min(count, 255), length))
    return found, size


def pieces(found: Mapping[str, Sequence[tuple[int, int, int]]], ids: Mapping[str, int]) -> list[tuple[int, int, bytes]]:
    """The entries of `counted` as (number of the term, block, bytes of `ENTRY`)."""
    parts = []
    for key, entries in found.items():
        joined = np.array(entries, dtype=ENTRY)
        blocks = joined["row"] // BLOCK
        if blocks[0] == blocks[-1]:  # rows ascend
            parts.append((ids[key], int(blocks[0]), joined.tobytes()))
            continue
        parts += [(ids[key], int(block), joined[blocks == block].tobytes()) for block in np.unique(blocks)]
    return parts


def add(connection: sqlite3.Connection, document: int, language: str, texts: Sequence[NewText]) -> None:
    """Index a document's chunks, whose rows are higher than those of all chunks before."""
    found, size = counted(language, texts)
    ids = _ids(connection, found)
    connection.executemany(
        "INSERT INTO postings(term, block, entries) VALUES (?, ?, ?) ON CONFLICT (term, block) DO UPDATE "
        "SET entries = CAST(entries || excluded.entries AS BLOB)",
        pieces(found, ids),
    )
    numbers = np.fromiter((ids[key] for key in found), dtype="<i8", count=len(found))
    connection.execute("INSERT INTO document_terms VALUES (?, ?, ?)", (document, language, numbers.tobytes()))
    if texts:
        document_lengths.add(connection, np.array([(texts[0].row, size)], DOCUMENT))
    connection.execute("UPDATE lexical_totals SET chunks = chunks + ?, tokens = tokens + ?", (len(texts), size))


def remove(connection: sqlite3.Connection, document: int) -> None:
    """Drop a document's chunks from the index; call before its chunks are deleted."""
    stored = connection.execute("SELECT terms FROM document_terms WHERE document = ?", (document,)).fetchone()
    if stored is None:
        return
    query = "SELECT row FROM chunks WHERE document = ? ORDER BY row"
    rows = np.array([row for (row,) in connection.execute(query, (document,))], dtype="<u4")
    blocks = [int(block) for block in np.unique(rows // BLOCK)]
    lengths: dict[int, int] = {}
    numbers = [int(number) for number in np.frombuffer(stored[0], dtype="<i8")]
    for number in numbers:
        for block in blocks:
            before = connection.execute(
                "SELECT entries FROM postings WHERE term = ? AND block = ?", (number, block)
            ).fetchone()
            if before is None:
                continue
            entries = np.frombuffer(before[0], dtype=ENTRY)
            gone = np.isin(entries["row"], rows)
            lengths.update(zip(entries["row"][gone].tolist(), entries["length"][gone].tolist(), strict=True))
            _replace(connection, number, block, entries[~gone])
    connection.executemany(
        "DELETE FROM terms WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM postings WHERE term = ?1)",
        [(number,) for number in numbers],
    )
    connection.execute("DELETE FROM document_terms WHERE document = ?", (document,))
    if len(rows):
        document_lengths.remove(connection, int(rows[0]))
    connection.execute(
        "UPDATE lexical_totals SET chunks = chunks - ?, tokens = tokens - ?", (len(rows), sum(lengths.values()))
    )


def totals(connection: sqlite3.Connection) -> tuple[int, int]:
    """The number of chunks in the index, and of their words."""
    chunks, words = connection.execute("SELECT chunks, tokens FROM lexical_totals").fetchone()
    return int(chunks), int(words)


def languages(connection: sqlite3.Connection) -> list[str]:
    """The languages of the collection's documents."""
    found = []
    last: tuple[str] | None = connection.execute("SELECT min(language) FROM document_terms").fetchone()
    while last is not None and last[0] is not None:  # one step a language, not a document
        found.append(str(last[0]))
        last = connection.execute("SELECT min(language) FROM document_terms WHERE language > ?", last).fetchone()
    return found


def entries_of(connection: sqlite3.Connection, terms: Iterable[str], prefixes: Iterable[str] = ()) -> Entries:
    """The entries of all of `terms`, and of all terms that begin with one of `prefixes`; a row may come twice."""
    blobs = [
        entries
        for one in terms
        for (entries,) in connection.execute(
            "SELECT entries FROM postings WHERE term = (SELECT id FROM terms WHERE term = ?) ORDER BY block", (one,)
        )
    ]
    blobs += [
        entries
        for one in prefixes
        for (entries,) in connection.execute(
            "SELECT entries FROM terms t JOIN postings p ON p.term = t.id WHERE t.term >= ? AND t.term < ?",
            (one, one + "\U0010ffff"),
        )
    ]
    return np.frombuffer(b"".join(blobs), dtype=ENTRY)


def counts_of(connection: sqlite3.Connection, terms: Iterable[str]) -> dict[str, int]:
    """How many chunks have each of `terms`; terms that none has are left out."""
    counts: dict[str, int] = {}
    for batch in _batches(list(terms)):
        query = (
            "SELECT t.term, sum(length(p.entries)) FROM terms t JOIN postings p ON p.term = t.id "
            f"WHERE t.term IN ({','.join('?' * len(batch))}) GROUP BY t.id"
        )
        counts.update((one, size // ENTRY.itemsize) for one, size in connection.execute(query, batch))
    return counts


def _replace(connection: sqlite3.Connection, number: int, block: int, entries: Entries) -> None:
    if len(entries):
        connection.execute(
            "UPDATE postings SET entries = ? WHERE term = ? AND block = ?", (entries.tobytes(), number, block)
        )
    else:
        connection.execute("DELETE FROM postings WHERE term = ? AND block = ?", (number, block))


def _ids(connection: sqlite3.Connection, terms: Iterable[str]) -> dict[str, int]:
    """The numbers of terms, new ones included."""
    wanted = list(terms)
    connection.executemany("INSERT OR IGNORE INTO terms(term) VALUES (?)", [(one,) for one in wanted])
    ids: dict[str, int] = {}
    for batch in _batches(wanted):
        marks = ",".join("?" * len(batch))
        ids.update(connection.execute(f"SELECT term, id FROM terms WHERE term IN ({marks})", batch))
    return ids


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(items), _BATCH):
        yield items[first : first + _BATCH]
