"""Collections of earlier versions, brought to the present layout when they are opened.

One transaction does it: a process that dies leaves the collection as it was, and others wait.
"""

from __future__ import annotations

import json
import logging
import sqlite3

from retriever.languages import language_of
from retriever.lexical import lengths, postings
from retriever.lexical.postings import NewText
from retriever.stores.canonical import rows as metadata_rows
from retriever.stores.records import INSERT_METADATA, INSERT_TEXT, LANGUAGE_CHARS

TEXTS = """
CREATE TABLE texts (document INTEGER PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE, text TEXT NOT NULL);
"""
"""In a table of their own: whoever reads another column of a document does not read past its text."""

METADATA = """
CREATE TABLE document_metadata (
    key TEXT NOT NULL, value TEXT NOT NULL, number REAL, element INTEGER NOT NULL,
    document INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE, PRIMARY KEY (key, element, value, document)
) WITHOUT ROWID;
CREATE INDEX document_metadata_number ON document_metadata(key, element, number, document);
CREATE INDEX document_metadata_document ON document_metadata(document);
"""
"""What filters read."""

EARLIER = (1, 2, 3)
"""Layouts that are brought to the present one."""

log = logging.getLogger(__name__)

WAIT_SECONDS = 600
"""How long a process waits while another one does it."""


def upgrade(connection: sqlite3.Connection, name: str, version: int) -> None:
    """Bring a collection of one of the layouts `EARLIER` to layout `version`. Texts and vectors stay as they are.

    Layout 1 had its words in SQLite's FTS5: they are indexed anew. Layout 2 had no number formats: all were float32.
    Layout 3 had texts in the table of documents, no chunk size, and no lengths of documents.
    """
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {WAIT_SECONDS * 1000}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        (now,) = connection.execute("PRAGMA user_version").fetchone()
        if now in EARLIER:  # else another process has just done it
            if now == 1:
                _index_words(connection, name)
            else:
                connection.execute(lengths.SCHEMA)
                lengths.fill(connection)
            if now < 3:
                for column in ("vector_dtype", "embedder_dtype"):
                    connection.execute(f"ALTER TABLE collection ADD COLUMN {column} TEXT NOT NULL DEFAULT 'float32'")
            _move_texts(connection, name)
            connection.execute("ALTER TABLE collection ADD COLUMN chunk_size INTEGER")
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute(f"PRAGMA busy_timeout = {before}")


def _index_words(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DROP TABLE lexical")
    connection.execute("CREATE INDEX documents_bytes ON documents(bytes)")
    connection.execute("DROP TABLE document_metadata")
    for statement in f"{METADATA}{postings.SCHEMA}".split(";"):
        connection.execute(statement)
    (total,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    log.warning("collection %r is of an earlier version: the words of %d documents are indexed anew", name, total)
    for document in _documents(connection):
        query = "SELECT title, text, metadata FROM documents WHERE row = ?"
        title, text, metadata = connection.execute(query, (document,)).fetchone()
        rows = metadata_rows(json.loads(metadata))
        connection.executemany(INSERT_METADATA, [(*row, document) for row in rows])
        chunks = connection.execute(
            "SELECT row, start, end, headings FROM chunks WHERE document = ? ORDER BY row", (document,)
        )
        texts = [
            NewText(row, " ".join((title, *json.loads(headings))), text[start:end])
            for row, start, end, headings in chunks
        ]
        postings.add(connection, document, language_of(text[:LANGUAGE_CHARS]), texts)


def _move_texts(connection: sqlite3.Connection, name: str) -> None:
    log.warning("collection %r is of an earlier version: its texts are moved", name)
    connection.execute(TEXTS)
    connection.execute("ALTER TABLE chunks ADD COLUMN text TEXT NOT NULL DEFAULT ''")
    for document in _documents(connection):
        (text,) = connection.execute("SELECT text FROM documents WHERE row = ?", (document,)).fetchone()
        connection.execute(INSERT_TEXT, (document, text))
        chunks = connection.execute("SELECT row, start, end FROM chunks WHERE document = ?", (document,)).fetchall()
        connection.executemany(
            "UPDATE chunks SET text = ? WHERE row = ?", [(text[start:end], row) for row, start, end in chunks]
        )
    connection.execute("ALTER TABLE documents DROP COLUMN text")


def _documents(connection: sqlite3.Connection) -> list[int]:
    return [row for (row,) in connection.execute("SELECT row FROM documents ORDER BY row")]
