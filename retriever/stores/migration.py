"""Collections of earlier versions, brought to the present layout when they are opened.

One transaction does it: a process that dies leaves the collection as it was, and others wait.
"""

from __future__ import annotations

import json
import logging
import sqlite3

from retriever.languages import language_of
from retriever.lexical import postings
from retriever.lexical.postings import NewText
from retriever.stores.records import LANGUAGE_CHARS

log = logging.getLogger(__name__)

WAIT_SECONDS = 600
"""How long a process waits while another one does it."""


def from_1(connection: sqlite3.Connection, name: str, version: int) -> None:
    """Layout 1 had its words in SQLite's FTS5. They are indexed anew; texts and vectors stay as they are."""
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {WAIT_SECONDS * 1000}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        (now,) = connection.execute("PRAGMA user_version").fetchone()
        if now == 1:  # else another process has just done it
            _index_words(connection, name)
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute(f"PRAGMA busy_timeout = {before}")


def _index_words(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DROP TABLE lexical")
    connection.execute("CREATE INDEX documents_bytes ON documents(bytes)")
    for statement in postings.SCHEMA.split(";"):
        connection.execute(statement)
    (total,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    log.warning("collection %r is of an earlier version: the words of %d documents are indexed anew", name, total)
    for (document,) in connection.execute("SELECT row FROM documents ORDER BY row").fetchall():
        title, text = connection.execute("SELECT title, text FROM documents WHERE row = ?", (document,)).fetchone()
        chunks = connection.execute(
            "SELECT row, start, end, headings FROM chunks WHERE document = ? ORDER BY row", (document,)
        )
        texts = [
            NewText(row, " ".join((title, *json.loads(headings))), text[start:end])
            for row, start, end, headings in chunks
        ]
        postings.add(connection, document, language_of(text[:LANGUAGE_CHARS]), texts)
