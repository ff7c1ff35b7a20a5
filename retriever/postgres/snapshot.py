"""Reads of one collection in PostgreSQL, as the store's protocol has them.

Knows the tables of `schema`; knows no transactions. Every query names the collection, whose number the caller looked up
within the tenant; row-level security is a second fence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from retriever.embedding.embedder import Vectors
from retriever.moments import Moments
from retriever.postgres import nearest
from retriever.postgres.filters import allowed_documents
from retriever.postgres.schema import Connection
from retriever.postgres.words import Lexicon
from retriever.stores.passing import PassingRows
from retriever.stores.protocol import Rows
from retriever.stores.records import ChunkRecord
from retriever.stores.store import CollectionFacts
from retriever.types import Chunk, Document, DocumentInfo

_INFO = "SELECT id, name, title, kind, chunks, bytes, content_hash, metadata, updated"
_CHUNKS = (
    "SELECT c.row, d.id, d.title, d.date, c.ordinal, c.first, c.past, c.text, c.headings, c.page "
    "FROM chunks c JOIN documents d ON d.row = c.document WHERE c.collection = %s AND "
)


class PostgresSnapshot(Lexicon):
    """What one read transaction sees.

    Args:
        single: whether the vectors are in single precision.
        passing: rows that passed earlier filters; None, within a change, keeps none.
    """

    def __init__(
        self,
        connection: Connection,
        collection: int,
        facts: CollectionFacts,
        single: bool,
        passing: PassingRows | None = None,
    ) -> None:
        super().__init__(connection, collection)
        self._facts = facts
        self._passing = passing
        self.vectors = nearest.Column(collection, facts.dimension, single)

    def facts(self) -> CollectionFacts:
        return self._facts

    def counts(self) -> tuple[int, int, int]:
        (row,) = self._all("SELECT documents, chunks, bytes FROM collections WHERE id = %s", self.collection)
        return int(row[0]), int(row[1]), int(row[2])

    def content_hash(self, document_id: str) -> str | None:
        return content_hash(self.connection, self.collection, document_id)

    def document(self, document_id: str) -> Document | None:
        if not storable(document_id):
            return None
        query = f"{_INFO}, text, pages FROM documents WHERE collection = %s AND id = %s"
        for *info, text, pages in self._all(query, self.collection, document_id):
            return Document(**_info_fields(info), text=text, pages=tuple(json.loads(pages)))
        return None

    def documents(self, limit: int, after: str) -> list[DocumentInfo]:
        # Ids have no NUL: those above "a\0b" are those above "a"
        start = after.partition("\0")[0].encode(errors="replace").decode()
        query = f"{_INFO} FROM documents WHERE collection = %s AND id > %s ORDER BY id LIMIT %s"
        return [DocumentInfo(**_info_fields(row)) for row in self._all(query, self.collection, start, limit)]

    def original(self, document_id: str) -> tuple[int, int] | None:
        if not storable(document_id):
            return None
        query = (
            "SELECT d.row, sum(length(o.bytes)) FROM documents d JOIN originals o ON o.document = d.row "
            "WHERE d.collection = %s AND d.id = %s GROUP BY d.row"
        )
        found = self._all(query, self.collection, document_id)
        return (int(found[0][0]), int(found[0][1])) if found else None

    def original_piece(self, document: int, number: int) -> bytes | None:
        query = "SELECT bytes FROM originals WHERE collection = %s AND document = %s AND piece = %s"
        found = self._all(query, self.collection, document, number)
        return bytes(found[0][0]) if found else None

    def chunks(self, document_id: str) -> list[ChunkRecord]:
        if not storable(document_id):
            return []
        query = f"{_CHUNKS} d.collection = c.collection AND d.id = %s ORDER BY c.ordinal"
        return [_record(row) for row in self._all(query, self.collection, document_id)]

    def chunks_at(self, rows: Iterable[int]) -> dict[int, ChunkRecord]:
        found = self._all(f"{_CHUNKS} c.row = ANY(%s)", self.collection, list(rows))
        return {record.row: record for record in map(_record, found)}

    def rows_of(self, places: Iterable[tuple[str, int]], allowed: Rows | None = None) -> list[int]:
        wanted = [place for place in places if storable(place[0])]
        query = (
            "SELECT d.id, c.ordinal, c.row FROM unnest(%s::text[], %s::int[]) AS p(id, ordinal) "
            "JOIN documents d ON d.collection = %s AND d.id = p.id "
            "JOIN chunks c ON c.document = d.row AND c.ordinal = p.ordinal"
        )
        ids, ordinals = [place[0] for place in wanted], [place[1] for place in wanted]
        rows = {(one, ordinal): int(row) for one, ordinal, row in self._all(query, ids, ordinals, self.collection)}
        found = [rows[place] for place in wanted if place in rows]
        return found if allowed is None else [row for row in found if np.isin(row, allowed)]

    def titles_of(self, rows: Iterable[int]) -> list[tuple[str, str, object]]:
        query = (
            "SELECT id, title, date FROM documents WHERE row IN "
            "(SELECT document FROM chunks WHERE collection = %s AND row = ANY(%s)) ORDER BY id"
        )
        return [(one, title, _date(date)) for one, title, date in self._all(query, self.collection, list(rows))]

    def passing(self, where: Mapping[str, Any]) -> Rows:
        return self._passes(where) if self._passing is None else self._passing.get(self._facts, where, self._passes)

    def _passes(self, where: Mapping[str, Any]) -> Rows:
        documents, parameters = allowed_documents(self.collection, where)
        query = (
            "SELECT string_agg(int8send(row), ''::bytea ORDER BY row) FROM chunks "
            f"WHERE collection = %s AND document IN ({documents})"
        )
        ((blob,),) = self.connection.cursor(binary=True).execute(query, (self.collection, *parameters))
        return np.frombuffer(blob or b"", dtype=">i8").astype(np.int64)

    def stored_by(self, job: str) -> set[str]:
        return stored_by(self.connection, self.collection, job)

    def stored_by_jobs(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for job, document in self._all("SELECT job, document FROM stored_by WHERE collection = %s", self.collection):
            found.setdefault(str(job), set()).add(str(document))
        return found

    def versions(self) -> dict[str, tuple[str, float]]:
        query = "SELECT id, content_hash, updated FROM documents WHERE collection = %s ORDER BY id"
        return {str(one): (str(digest), float(updated)) for one, digest, updated in self._all(query, self.collection)}

    def kept_vectors(self, document_id: str) -> list[tuple[bytes, Vectors]]:
        column = "single" if self.vectors.single else "half::vector"
        query = (
            f"SELECT c.embedded_hash, c.{column}::real[] FROM chunks c JOIN documents d ON d.row = c.document "
            "WHERE d.collection = %s AND d.id = %s ORDER BY c.ordinal"
        )
        found = self.connection.cursor(binary=True).execute(query, (self.collection, document_id))
        return [(bytes(digest), np.array(vector, np.float32)) for digest, vector in found]

    def vectors_by_hash(self, digests: Iterable[bytes]) -> dict[bytes, Vectors]:
        query = (
            f"SELECT DISTINCT ON (embedded_hash) embedded_hash, {self.vectors.exact}::real[] FROM chunks "
            "WHERE collection = %s AND embedded_hash = ANY(%s)"
        )
        found = self.connection.cursor(binary=True).execute(query, (self.collection, list(digests)))
        return {bytes(digest): np.array(vector, np.float32) for digest, vector in found}

    def nearest(
        self, vector: Vectors, depth: int, allowed: Rows | None = None
    ) -> Callable[[], list[tuple[int, float]]]:
        """The database does one thing after the other, so it begins with the call."""
        count = self.totals()[0]
        return lambda: nearest.nearest(self.connection, self.vectors, count, vector, depth, allowed)

    def cosines(self, vector: Vectors, rows: Iterable[int]) -> dict[int, float]:
        return nearest.cosines(self.connection, self.vectors, vector, list(rows))

    def moments(self, vector: Vectors) -> Moments:
        return nearest.moments(self.connection, self.vectors, self.totals()[0], vector)

    def _all(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, parameters).fetchall()


def content_hash(connection: Connection, collection: int, document_id: str) -> str | None:
    """The stored document's content hash; None if there is no such document."""
    if not storable(document_id):
        return None
    query = "SELECT content_hash FROM documents WHERE collection = %s AND id = %s"
    row = connection.execute(query, (collection, document_id)).fetchone()
    return None if row is None else str(row[0])


def stored_by(connection: Connection, collection: int, job: str) -> set[str]:
    """Marks of the documents that the ingest `job` has stored so far."""
    query = "SELECT document FROM stored_by WHERE collection = %s AND job = %s"
    return {str(row[0]) for row in connection.execute(query, (collection, job))}


def storable(text: str) -> bool:
    """Whether PostgreSQL can have a text at all: none with NUL or unpaired surrogates is in any document."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def _date(stored: str | None) -> object:
    return None if stored is None else json.loads(stored)


def _record(row: Sequence[Any]) -> ChunkRecord:
    number, document_id, title, date, ordinal, first, past, text, headings, page = row
    chunk = Chunk(ordinal, first, past, text, tuple(json.loads(headings)), page)
    return ChunkRecord(int(number), document_id, title, _date(date), chunk)


def _info_fields(row: Sequence[Any]) -> dict[str, Any]:
    names = ("id", "name", "title", "kind", "chunks", "bytes", "content_hash", "metadata", "updated")
    fields = dict(zip(names, row, strict=True))
    fields["metadata"] = json.loads(fields["metadata"])
    return fields
