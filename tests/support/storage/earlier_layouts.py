"""Collections as earlier versions wrote them, made from one of the present version."""

from __future__ import annotations

import sqlite3

import numpy as np


def to_layout_3(connection: sqlite3.Connection) -> None:
    """Texts in the table of documents, those of chunks in them only, no chunk size, no lengths of documents."""
    connection.execute("ALTER TABLE documents ADD COLUMN text TEXT NOT NULL DEFAULT ''")
    connection.execute("UPDATE documents SET text = (SELECT text FROM texts WHERE document = row)")
    connection.execute("DROP TABLE texts")
    connection.execute("ALTER TABLE chunks DROP COLUMN text")
    connection.execute("ALTER TABLE collection DROP COLUMN chunk_size")
    connection.execute("DROP TABLE document_lengths")
    connection.execute("PRAGMA user_version = 3")


def to_layout_2(connection: sqlite3.Connection) -> None:
    """Layout 3 with vectors in float32, and no number formats among the facts."""
    to_layout_3(connection)
    for row, vector in connection.execute("SELECT row, vector FROM chunks").fetchall():
        wide = np.frombuffer(vector, "<f2").astype("<f4").tobytes()
        connection.execute("UPDATE chunks SET vector = ? WHERE row = ?", (wide, row))
    for column in ("vector_dtype", "embedder_dtype"):
        connection.execute(f"ALTER TABLE collection DROP COLUMN {column}")
    connection.execute("PRAGMA user_version = 2")
