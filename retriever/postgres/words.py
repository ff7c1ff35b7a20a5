"""The lexical index's tables in PostgreSQL: the same blocks of entries as `lexical.postings` keeps in SQLite."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from retriever.lexical import lengths as document_lengths
from retriever.lexical import postings
from retriever.lexical.lexicon import BLOCK, DOCUMENT, ENTRY, Documents, Entries, Lengths
from retriever.lexical.postings import NewText
from retriever.postgres.schema import Connection

MOST_BYTES = 800
"""Longer terms are kept as their beginning and a digest: an index of PostgreSQL has no room for them."""


class Lexicon:
    """Reads a collection's words within the caller's transaction."""

    def __init__(self, connection: Connection, collection: int) -> None:
        self.connection = connection
        self.collection = collection

    def totals(self) -> tuple[int, int]:
        query = "SELECT chunks, tokens FROM collections WHERE id = %s"
        row = self.connection.execute(query, (self.collection,)).fetchone()
        assert row is not None, "the snapshot has its collection"
        return int(row[0]), int(row[1])

    def languages(self) -> list[str]:
        # One step a language, not a document
        query = """
            WITH RECURSIVE spoken AS (
                SELECT min(language) AS language FROM document_terms WHERE collection = %(collection)s
                UNION ALL
                SELECT (SELECT min(language) FROM document_terms
                        WHERE collection = %(collection)s AND language > spoken.language)
                FROM spoken WHERE spoken.language IS NOT NULL
            ) SELECT language FROM spoken WHERE language IS NOT NULL ORDER BY language"""
        return [str(row[0]) for row in self.connection.execute(query, {"collection": self.collection})]

    def lengths(self) -> Lengths:
        query = "SELECT documents FROM document_lengths WHERE collection = %s ORDER BY block"
        found = self.connection.cursor(binary=True).execute(query, (self.collection,))
        return np.frombuffer(b"".join(blob for (blob,) in found), dtype=DOCUMENT)

    def document_lengths(self) -> Documents:
        return Documents(self.lengths())

    def entries_of(self, terms: Iterable[str], prefixes: Iterable[str] = ()) -> Entries:
        keys = [_key(one) for one in terms]
        starts = [_start(one) for one in prefixes]
        conditions = ["t.term = ANY(%s)"] * bool(keys) + ["(t.term >= %s AND t.term < %s)"] * len(starts)
        if not conditions:
            return np.zeros(0, ENTRY)
        bounds = [bound for one in starts for bound in (one, one + "\U0010ffff")]
        query = (
            "SELECT p.entries FROM terms t JOIN postings p ON p.term = t.id "
            f"WHERE t.collection = %s AND ({' OR '.join(conditions)}) ORDER BY p.term, p.block"
        )
        parameters = [self.collection, *([keys] if keys else []), *bounds]
        found = self.connection.cursor(binary=True).execute(query, parameters)
        return np.frombuffer(b"".join(entries for (entries,) in found), dtype=ENTRY)

    def counts_of(self, terms: Iterable[str]) -> dict[str, int]:
        named = {_key(one): one for one in terms}
        query = (
            "SELECT t.term, sum(octet_length(p.entries)) FROM terms t JOIN postings p ON p.term = t.id "
            "WHERE t.collection = %s AND t.term = ANY(%s) GROUP BY t.id"
        )
        found = self.connection.execute(query, (self.collection, list(named)))
        return {named[key]: int(size) // ENTRY.itemsize for key, size in found}


class Words:
    """Changes a collection's words within the caller's transaction. `flush` writes what was added."""

    def __init__(self, connection: Connection, collection: int) -> None:
        self._connection = connection
        self._collection = collection
        self._found: dict[str, list[tuple[int, int, int]]] = {}
        self._documents: list[tuple[int, str, list[str]]] = []
        self._lengths: list[tuple[int, int]] = []
        self.tokens = 0
        """By how many words the collection has grown."""

    def add(self, document: int, language: str, texts: Sequence[NewText]) -> None:
        """Index a document's chunks, whose rows are higher than those of all chunks before."""
        found, size = postings.counted(language, texts)
        kept = [_key(term) for term in found]
        for key, entries in zip(kept, found.values(), strict=True):
            self._found.setdefault(key, []).extend(entries)
        self._documents.append((document, language, kept))
        self._lengths += [(texts[0].row, size)] if texts else []
        self.tokens += size

    def flush(self) -> None:
        if not self._documents:
            return
        terms = sorted(self._found)  # in one order, so that two collections' transactions cannot wait for each other
        self._connection.execute(
            "INSERT INTO terms(collection, term) SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING",
            (self._collection, terms),
        )
        query = "SELECT term, id FROM terms WHERE collection = %s AND term = ANY(%s)"
        ids: dict[str, int] = dict(self._connection.execute(query, (self._collection, terms)).fetchall())
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO postings(collection, term, block, entries) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (term, block) DO UPDATE SET entries = postings.entries || excluded.entries",
                [(self._collection, *piece) for piece in postings.pieces(self._found, ids)],
            )
            cursor.executemany(
                "INSERT INTO document_terms(collection, document, language, terms) VALUES (%s, %s, %s, %s)",
                [
                    (self._collection, document, language, np.array([ids[key] for key in kept], "<i8").tobytes())
                    for document, language, kept in self._documents
                ],
            )
            cursor.executemany(
                "INSERT INTO document_lengths(collection, block, documents) VALUES (%s, %s, %s) "
                "ON CONFLICT (collection, block) DO UPDATE "
                "SET documents = document_lengths.documents || excluded.documents",
                [
                    (self._collection, *piece)
                    for piece in document_lengths.pieces(np.array(self._lengths, dtype=DOCUMENT))
                ],
            )
        self._found, self._documents, self._lengths = {}, [], []

    def remove(self, document: int) -> None:
        """Drop a document's chunks from the index; call before its chunks are deleted."""
        self.flush()
        stored = self._connection.execute(
            "SELECT terms FROM document_terms WHERE document = %s", (document,)
        ).fetchone()
        if stored is None:
            return
        query = "SELECT row FROM chunks WHERE document = %s ORDER BY row"
        rows = np.array([row for (row,) in self._connection.execute(query, (document,))], dtype="<u4")
        blocks = [int(block) for block in np.unique(rows // BLOCK)]
        numbers = np.frombuffer(stored[0], dtype="<i8").tolist()
        query = "SELECT term, block, entries FROM postings WHERE term = ANY(%s) AND block = ANY(%s)"
        lengths: dict[int, int] = {}
        changed, emptied = [], []
        for number, block, blob in self._connection.cursor(binary=True).execute(query, (numbers, blocks)):
            entries = np.frombuffer(blob, dtype=ENTRY)
            gone = np.isin(entries["row"], rows)
            lengths.update(zip(entries["row"][gone].tolist(), entries["length"][gone].tolist(), strict=True))
            left = entries[~gone]
            if len(left):
                changed.append((left.tobytes(), number, block))
            else:
                emptied.append((number, block))
        with self._connection.cursor() as cursor:
            cursor.executemany("UPDATE postings SET entries = %s WHERE term = %s AND block = %s", changed)
            cursor.executemany("DELETE FROM postings WHERE term = %s AND block = %s", emptied)
        self._connection.execute(
            "DELETE FROM terms WHERE id = ANY(%s) AND NOT EXISTS (SELECT 1 FROM postings p WHERE p.term = terms.id)",
            ([number for number, _ in emptied],),
        )
        self._connection.execute("DELETE FROM document_terms WHERE document = %s", (document,))
        if len(rows):
            self._forget(int(rows[0]))
        self.tokens -= sum(lengths.values())

    def _forget(self, first: int) -> None:
        """Drop the length of the document whose first chunk that is."""
        where = "WHERE collection = %s AND block = %s"
        query, place = f"SELECT documents FROM document_lengths {where}", (self._collection, first // BLOCK)
        ((stored,),) = self._connection.cursor(binary=True).execute(query, place)
        left = document_lengths.without(stored, first)
        if left:
            self._connection.execute(f"UPDATE document_lengths SET documents = %s {where}", (left, *place))
        else:
            self._connection.execute(f"DELETE FROM document_lengths {where}", place)


def _key(term: str) -> str:
    """A term as it is stored."""
    encoded = term.encode()
    if len(encoded) <= MOST_BYTES:
        return term
    return f"{_start(term)}\x01{hashlib.sha256(encoded).hexdigest()}"


def _start(prefix: str) -> str:
    """As much of a prefix as stored terms have; a longer one gives more terms than asked for."""
    return prefix.encode()[:MOST_BYTES].decode(errors="ignore")
