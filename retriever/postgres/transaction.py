"""Changes of one collection in PostgreSQL, within one transaction that has the collection's row locked.

Knows the tables of `schema`. Rows of chunks are given from a counter of the collection, as in the embedded store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

import numpy as np

from retriever.embedding.embedder import Vectors
from retriever.languages import language_of
from retriever.lexical.postings import NewText
from retriever.parsing.text import clean
from retriever.postgres.database import literal
from retriever.postgres.filters import stored_rows
from retriever.postgres.nearest import Column
from retriever.postgres.schema import Connection
from retriever.postgres.snapshot import storable, stored_by
from retriever.postgres.words import Words
from retriever.stores.records import LANGUAGE_CHARS, NewDocument
from retriever.stores.store import CollectionFacts


class PostgresTransaction:
    """`finish` writes what was collected; without it the transaction must be undone."""

    def __init__(self, connection: Connection, facts: CollectionFacts, column: Column, last_row: int) -> None:
        self._connection = connection
        self._facts = facts
        self._column = column
        self._collection = column.collection
        self._last_row = last_row
        self._words = Words(connection, self._collection)
        self._documents = self._bytes = self._chunks = 0

    def facts(self) -> CollectionFacts:
        return self._facts

    def follow(self, facts: CollectionFacts) -> None:
        self._connection.execute(
            "UPDATE collections SET created = %s, generation = greatest(generation, %s) WHERE id = %s",
            (facts.created, facts.generation, self._collection),
        )

    def put(self, new: NewDocument, vectors: Sequence[Vectors]) -> bool:
        replaced = self.delete(new.id)
        loaded = new.loaded
        size = len(loaded.text.encode())
        row = self._connection.execute(
            "INSERT INTO documents(collection, id, name, title, kind, text, bytes, content_hash, metadata, date, "
            "pages, chunks, updated) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING row",
            (
                self._collection, new.id, clean(new.name), loaded.title, loaded.kind, loaded.text, size,
                new.content_hash, json.dumps(dict(new.metadata)), json.dumps(new.metadata.get("date")),
                json.dumps(loaded.pages), len(new.chunks), time.time() if new.updated is None else new.updated,
            ),
        ).fetchone()  # fmt: skip
        assert row is not None
        document = int(row[0])
        rows = range(self._last_row + 1, self._last_row + 1 + len(new.chunks))
        self._last_row += len(new.chunks)
        dtype = "<f4" if self._column.single else "<f2"
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO document_metadata(collection, document, key, element, prefix, value, number) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [(self._collection, document, *one) for one in stored_rows(new.metadata)],
            )
            cursor.executemany(
                "INSERT INTO chunks(collection, row, document, ordinal, first, past, page, headings, text, "
                f"embedded_hash, {self._column.name}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    (
                        self._collection, number, document, chunk.ordinal, chunk.start, chunk.end, chunk.page,
                        json.dumps(chunk.heading), chunk.text, digest,
                        literal(np.asarray(vector, dtype=dtype).astype(np.float32)),
                    )
                    for number, chunk, digest, vector in zip(rows, new.chunks, new.hashes, vectors, strict=True)
                ],
            )  # fmt: skip
        texts = [
            NewText(number, " ".join((loaded.title, *chunk.heading)), chunk.text)
            for number, chunk in zip(rows, new.chunks, strict=True)
        ]
        self._words.add(document, language_of(loaded.text[:LANGUAGE_CHARS]), texts)
        if new.original is not None:
            for number, piece in enumerate(new.original()):
                self._connection.execute(
                    "INSERT INTO originals(collection, document, piece, bytes) VALUES (%s, %s, %s, %s)",
                    (self._collection, document, number, piece),
                )
        self._documents += 1
        self._bytes += size
        self._chunks += len(new.chunks)
        return replaced

    def delete(self, document_id: str) -> bool:
        if not storable(document_id):
            return False
        row = self._connection.execute(
            "SELECT row, bytes, chunks FROM documents WHERE collection = %s AND id = %s",
            (self._collection, document_id),
        ).fetchone()
        if row is None:
            return False
        document, size, chunks = row
        self._words.remove(document)
        self._connection.execute("DELETE FROM documents WHERE row = %s", (document,))
        self._documents -= 1
        self._bytes -= size
        self._chunks -= chunks
        return True

    def stored_by(self, job: str) -> set[str]:
        return stored_by(self._connection, self._collection, job)

    def record_stored(self, job: str, documents: Iterable[str]) -> None:
        self._connection.execute("DELETE FROM stored_by WHERE collection = %s AND job != %s", (self._collection, job))
        self._connection.execute(
            "INSERT INTO stored_by(collection, job, document) SELECT %s, %s, unnest(%s::text[]) ON CONFLICT DO NOTHING",
            (self._collection, job, list(documents)),
        )

    def finish(self) -> None:
        """Write the words, the counters and the next generation."""
        self._words.flush()
        self._connection.execute(
            "UPDATE collections SET generation = generation + 1, rows = %s, documents = documents + %s, "
            "bytes = bytes + %s, chunks = chunks + %s, tokens = tokens + %s WHERE id = %s",
            (self._last_row, self._documents, self._bytes, self._chunks, self._words.tokens, self._collection),
        )
