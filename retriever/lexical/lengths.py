"""The documents of the lexical index: the first chunk of each, and the words of all its chunks.

Knows SQL and the form of an entry; knows no terms. Documents lie in blocks of `BLOCK` chunk rows, as a term's entries
do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import numpy as np

from retriever.lexical.lexicon import BLOCK, DOCUMENT, ENTRY, Lengths

SCHEMA = "CREATE TABLE document_lengths (block INTEGER PRIMARY KEY, documents BLOB NOT NULL)"


def read(connection: sqlite3.Connection) -> Lengths:
    """All documents that have chunks, by row."""
    stored = connection.execute("SELECT documents FROM document_lengths ORDER BY block")
    return np.frombuffer(b"".join(blob for (blob,) in stored), dtype=DOCUMENT)


def add(connection: sqlite3.Connection, new: Lengths) -> None:
    """Add documents, whose rows are higher than those of all before."""
    connection.executemany(
        "INSERT INTO document_lengths VALUES (?, ?) ON CONFLICT (block) DO UPDATE "
        "SET documents = CAST(documents || excluded.documents AS BLOB)",
        pieces(new),
    )


def remove(connection: sqlite3.Connection, first: int) -> None:
    """Drop the document whose first chunk is `first`."""
    block = first // BLOCK
    (stored,) = connection.execute("SELECT documents FROM document_lengths WHERE block = ?", (block,)).fetchone()
    left = without(stored, first)
    if left:
        connection.execute("UPDATE document_lengths SET documents = ? WHERE block = ?", (left, block))
    else:
        connection.execute("DELETE FROM document_lengths WHERE block = ?", (block,))


def fill(connection: sqlite3.Connection) -> None:
    """Add the documents of a collection that has their entries and not their lengths."""
    firsts = [row for (row,) in connection.execute("SELECT min(row) FROM chunks GROUP BY document ORDER BY 1")]
    (last,) = connection.execute("SELECT coalesce(max(row), 0) FROM chunks").fetchone()
    stored = (entries for (entries,) in connection.execute("SELECT entries FROM postings"))
    add(connection, counted(firsts, last, stored))


def pieces(new: Lengths) -> list[tuple[int, bytes]]:
    """Documents as (block, bytes of `DOCUMENT`)."""
    blocks = new["row"] // BLOCK
    return [(int(block), new[blocks == block].tobytes()) for block in np.unique(blocks)]


def without(stored: bytes, first: int) -> bytes:
    """A block without the document whose first chunk is `first`."""
    documents = np.frombuffer(stored, DOCUMENT)
    return bytes(documents[documents["row"] != first].tobytes())


def counted(firsts: Sequence[int], last: int, stored: Iterable[bytes]) -> Lengths:
    """The documents with the first chunks `firsts`, ascending, from all entries of their collection.

    `last`: the highest row of a chunk.
    """
    chunks = np.zeros(last + 1, np.uint32)
    for blob in stored:
        entries = np.frombuffer(blob, ENTRY)
        chunks[entries["row"]] = entries["length"]
    documents = np.zeros(len(firsts), DOCUMENT)
    if firsts:
        documents["row"] = firsts
        documents["length"] = np.add.reduceat(chunks, firsts)
    return documents
