"""The SQL for documents and chunks, within the caller's transaction.

Knows the tables of `store`; knows no transactions, no embedding, no ranking.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from retriever.embedding.embedder import Vectors
from retriever.languages import language_of
from retriever.lexical import postings
from retriever.lexical.postings import NewText
from retriever.stores import originals, vectors
from retriever.stores.canonical import rows as metadata_rows
from retriever.types import Chunk, Document, DocumentInfo, LoadedDocument

_INFO = (
    "SELECT d.id, d.name, d.title, d.kind, (SELECT count(*) FROM chunks c WHERE c.document = d.row), d.bytes, "
    "d.content_hash, d.metadata, d.updated"
)
INSERT_TEXT = "INSERT INTO texts(document, text) VALUES (?, ?)"
INSERT_METADATA = "INSERT INTO document_metadata(key, value, number, element, document) VALUES (?, ?, ?, ?, ?)"
_BATCH = 500
_VECTORS = 4096
"""Vectors in a batch."""
LANGUAGE_CHARS = 4000
"""A document's language is that of so many of its first characters."""
SAMPLE = 1024
ALL_ROWS = "SELECT row FROM chunks INDEXED BY chunks_embedded_hash"
"""Without reading the chunks themselves, which hold the vectors."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A new or changed document, read and chunked."""

    id: str
    name: str
    loaded: LoadedDocument
    content_hash: str
    metadata: Mapping[str, Any]
    chunks: Sequence[Chunk]
    texts: Sequence[str]
    """The text to embed for each chunk."""
    hashes: Sequence[bytes]
    """Their digests."""
    original: Callable[[], Iterable[bytes]] | None = None
    """Gives the pieces of the file that is to be kept with it."""
    updated: float | None = None
    """Unix time, seconds; None for now."""


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A stored chunk with its row and document."""

    row: int
    document_id: str
    title: str
    date: object
    """The document's `metadata["date"]`."""
    chunk: Chunk


def content_hash(connection: sqlite3.Connection, document_id: str) -> str | None:
    """The stored document's content hash; None if there is no such document."""
    row = connection.execute("SELECT content_hash FROM documents WHERE id = ?", (document_id,)).fetchone()
    return None if row is None else str(row[0])


def put(connection: sqlite3.Connection, new: NewDocument, embedded: Sequence[Vectors]) -> bool:
    """Store `new` in place of the document of its id; True if there was one.

    `embedded`: a vector, float32 [dimension], for each chunk.
    """
    replaced = delete(connection, new.id)
    loaded = new.loaded
    document = connection.execute(
        "INSERT INTO documents(id, name, title, kind, bytes, content_hash, metadata, pages, updated) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.id, new.name, loaded.title, loaded.kind, len(loaded.text.encode()), new.content_hash,
            json.dumps(dict(new.metadata)), json.dumps(loaded.pages),
            time.time() if new.updated is None else new.updated,
        ),
    ).lastrowid  # fmt: skip
    assert document is not None
    connection.execute(INSERT_TEXT, (document, loaded.text))
    connection.executemany(
        INSERT_METADATA,
        [(*row, document) for row in metadata_rows(new.metadata)],
    )
    texts = []
    dtype, _ = _vector_format(connection)
    for chunk, digest, vector in zip(new.chunks, new.hashes, embedded, strict=True):
        row = connection.execute(
            "INSERT INTO chunks(document, ordinal, start, end, page, headings, text, embedded_hash, vector) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document, chunk.ordinal, chunk.start, chunk.end, chunk.page, json.dumps(chunk.heading), chunk.text,
                digest, vectors.to_bytes(vector, dtype),
            ),
        ).lastrowid  # fmt: skip
        assert row is not None
        texts.append(NewText(row, " ".join((loaded.title, *chunk.heading)), chunk.text))
    if new.original is not None:
        originals.put(connection, document, new.original())
    postings.add(connection, document, language_of(loaded.text[:LANGUAGE_CHARS]), texts)
    return replaced


def delete(connection: sqlite3.Connection, document_id: str) -> bool:
    """Remove a document with its chunks; False if there is none."""
    row = connection.execute("SELECT row FROM documents WHERE id = ?", (document_id,)).fetchone()
    if row is None:
        return False
    postings.remove(connection, row[0])
    connection.execute("DELETE FROM documents WHERE row = ?", row)
    return True


def stored_by(connection: sqlite3.Connection, job: str) -> set[str]:
    """Marks of the documents that the ingest `job` has stored so far; only the last such ingest is recorded."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'stored_by'").fetchone() is None:
        return set()  # collections of earlier versions have no such table yet
    return {str(row[0]) for row in connection.execute("SELECT document FROM stored_by WHERE job = ?", (job,))}


def stored_by_jobs(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The ids that each recorded ingest has stored; one ingest at most."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'stored_by'").fetchone() is None:
        return {}
    found: dict[str, set[str]] = {}
    for job, document in connection.execute("SELECT job, document FROM stored_by"):
        found.setdefault(str(job), set()).add(str(document))
    return found


def record_stored(connection: sqlite3.Connection, job: str, documents: Iterable[str]) -> None:
    """Record, in the transaction that stores them, which documents an ingest stores; records of others go."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS stored_by (job TEXT NOT NULL, document TEXT NOT NULL, "
        "PRIMARY KEY (job, document)) WITHOUT ROWID"
    )
    connection.execute("DELETE FROM stored_by WHERE job != ?", (job,))
    connection.executemany("INSERT OR IGNORE INTO stored_by VALUES (?, ?)", [(job, one) for one in documents])


def document(connection: sqlite3.Connection, document_id: str) -> Document | None:
    query = f"{_INFO}, t.text, d.pages FROM documents d JOIN texts t ON t.document = d.row WHERE d.id = ?"
    row = connection.execute(query, (document_id,)).fetchone()
    if row is None:
        return None
    *info, text, pages = row
    return Document(**_info_fields(info), text=text, pages=tuple(json.loads(pages)))


def documents(connection: sqlite3.Connection, limit: int, after: str) -> list[DocumentInfo]:
    rows = connection.execute(f"{_INFO} FROM documents d WHERE d.id > ? ORDER BY d.id LIMIT ?", (after, limit))
    return [DocumentInfo(**_info_fields(row)) for row in rows]


def versions(connection: sqlite3.Connection) -> dict[str, tuple[str, float]]:
    """Content hash and time of the last change of every document, by id."""
    rows = connection.execute("SELECT id, content_hash, updated FROM documents ORDER BY id")
    return {str(one): (str(digest), float(updated)) for one, digest, updated in rows}


def kept_vectors(connection: sqlite3.Connection, document_id: str) -> list[tuple[bytes, Vectors]]:
    """For each chunk of a document, in order, the digest of its embedded text and its vector as it is kept."""
    dtype, _ = _vector_format(connection)
    query = (
        "SELECT c.embedded_hash, c.vector FROM chunks c JOIN documents d ON d.row = c.document "
        "WHERE d.id = ? ORDER BY c.ordinal"
    )
    rows = connection.execute(query, (document_id,))
    return [(bytes(digest), vectors.as_kept(vector, dtype)) for digest, vector in rows]


def chunks(connection: sqlite3.Connection, document_id: str) -> list[ChunkRecord]:
    """A document's chunks in order; empty if there is no such document."""
    return _chunk_records(connection, "d.id = ? ORDER BY c.ordinal", (document_id,))


def rows_of(
    connection: sqlite3.Connection,
    places: Iterable[tuple[str, int]],
    allowed: str = "",
    parameters: Sequence[object] = (),
) -> list[int]:
    """Rows of the chunks at (document id, ordinal), in that order; missing ones are left out.

    `allowed`: an SQL subquery of chunk rows to choose from, with its `parameters`.
    """
    restricted = f"AND c.row IN ({allowed})" if allowed else ""
    query = (
        "SELECT c.row FROM chunks c JOIN documents d ON d.row = c.document "
        f"WHERE d.id = ? AND c.ordinal = ? {restricted}"
    )
    matches = (connection.execute(query, (*place, *parameters)).fetchone() for place in places)
    return [int(row[0]) for row in matches if row is not None]


def chunks_at(connection: sqlite3.Connection, rows: Iterable[int]) -> dict[int, ChunkRecord]:
    """The chunks at `rows`, by row; deleted rows are left out."""
    records: list[ChunkRecord] = []
    for batch in _batches(rows):
        records += _chunk_records(connection, f"c.row IN ({','.join('?' * len(batch))})", batch)
    return {record.row: record for record in records}


def titles_of(connection: sqlite3.Connection, rows: Iterable[int]) -> list[tuple[str, str, object]]:
    """(id, title, `metadata["date"]`) of the documents that the chunks at `rows` belong to, each once."""
    found: dict[str, tuple[str, str, object]] = {}
    for batch in _batches(rows):
        query = (
            "SELECT DISTINCT d.id, d.title, json_extract(d.metadata, '$.date') FROM chunks c "
            f"JOIN documents d ON d.row = c.document WHERE c.row IN ({','.join('?' * len(batch))})"
        )
        found.update((row[0], row) for row in connection.execute(query, batch))
    return list(found.values())


def sample(connection: sqlite3.Connection) -> list[int]:
    """Rows of at most `SAMPLE` chunks, which the chunks' texts choose and not their order."""
    query = "SELECT row FROM chunks ORDER BY embedded_hash, row LIMIT ?"
    return [row for (row,) in connection.execute(query, (SAMPLE,))]


def vectors_at(connection: sqlite3.Connection, rows: Iterable[int]) -> tuple[list[int], Vectors]:
    """Those of `rows` that are stored, and their vectors, float32 [n, dimension]."""
    found: dict[int, bytes] = {}
    for batch in _batches(rows):
        marks = ",".join("?" * len(batch))
        found.update(connection.execute(f"SELECT row, vector FROM chunks WHERE row IN ({marks})", batch))
    return list(found), _matrix(connection, list(found.values()))


def vectors_after(connection: sqlite3.Connection, row: int) -> Iterator[tuple[list[int], Vectors]]:
    """Rows greater than `row` in order, with their vectors, float32 [n, dimension], in batches."""
    found = connection.execute("SELECT row, vector FROM chunks WHERE row > ? ORDER BY row", (row,))
    while batch := found.fetchmany(_VECTORS):
        yield [one for one, _ in batch], _matrix(connection, [vector for _, vector in batch])


def counts(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Documents, chunks, bytes of text."""
    number, size = connection.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM documents").fetchone()
    return int(number), postings.totals(connection)[0], int(size)


def vectors_by_hash(connection: sqlite3.Connection, digests: Iterable[bytes]) -> dict[bytes, Vectors]:
    """Vectors, float32 [dimension], already stored for texts of these digests."""
    found: dict[bytes, Vectors] = {}
    for digest in digests:
        row = connection.execute("SELECT vector FROM chunks WHERE embedded_hash = ? LIMIT 1", (digest,)).fetchone()
        if row is not None:
            (found[digest],) = _matrix(connection, [row[0]])
    return found


def _vector_format(connection: sqlite3.Connection) -> tuple[str, int]:
    dtype, dimension = connection.execute("SELECT vector_dtype, dimension FROM collection").fetchone()
    return str(dtype), int(dimension)


def _matrix(connection: sqlite3.Connection, blobs: Sequence[bytes]) -> Vectors:
    return vectors.from_bytes(blobs, *_vector_format(connection))


def _batches(rows: Iterable[int]) -> Iterator[list[int]]:
    ordered = list(rows)
    for first in range(0, len(ordered), _BATCH):
        yield ordered[first : first + _BATCH]


def _chunk_records(connection: sqlite3.Connection, where: str, parameters: Sequence[object]) -> list[ChunkRecord]:
    rows = connection.execute(
        "SELECT c.row, d.id, d.title, json_extract(d.metadata, '$.date'), c.ordinal, c.start, c.end, c.text, "
        "c.headings, c.page "
        f"FROM chunks c JOIN documents d ON d.row = c.document WHERE {where}",
        tuple(parameters),
    )
    return [
        ChunkRecord(row, document_id, title, date, Chunk(ordinal, start, end, text, _headings(headings), page))
        for row, document_id, title, date, ordinal, start, end, text, headings, page in rows
    ]


@lru_cache(1 << 12)
def _headings(stored: str) -> tuple[str, ...]:
    return tuple(json.loads(stored))


def _info_fields(row: Sequence[Any]) -> dict[str, Any]:
    names = ("id", "name", "title", "kind", "chunks", "bytes", "content_hash", "metadata", "updated")
    fields = dict(zip(names, row, strict=True))
    fields["metadata"] = json.loads(fields["metadata"])
    return fields
