"""The uploaded files that documents were read from, kept on request in the collection's own file.

Knows rows and bytes; knows no formats. A file is stored in pieces, by the transaction that stores its document, and
deleted with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

PIECE_BYTES = 1 << 20

_TABLE = """
CREATE TABLE IF NOT EXISTS originals (
    document INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE, piece INTEGER NOT NULL, bytes BLOB NOT NULL,
    UNIQUE (document, piece)
)
"""


def put(connection: sqlite3.Connection, document: int, parts: Iterable[bytes]) -> None:
    """Store a file, in pieces, for the document of that row. Raises OSError if it cannot be read."""
    connection.execute(_TABLE)
    rows = ((document, number, data) for number, data in enumerate(parts))
    connection.executemany("INSERT INTO originals VALUES (?, ?, ?)", rows)


def pieces(path: Path) -> Iterator[bytes]:
    """A file's bytes; an empty file has one empty piece. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        yield file.read(PIECE_BYTES)
        while data := file.read(PIECE_BYTES):
            yield data


def find(connection: sqlite3.Connection, document_id: str) -> tuple[int, int] | None:
    """The row of a document and the bytes of its file; None if none is kept."""
    if not _exist(connection):
        return None
    document, size = connection.execute(
        "SELECT d.row, sum(length(o.bytes)) FROM documents d JOIN originals o ON o.document = d.row WHERE d.id = ?",
        (document_id,),
    ).fetchone()
    return None if document is None else (int(document), int(size))


def piece(connection: sqlite3.Connection, document: int, number: int) -> bytes | None:
    """A piece of the file of the document of that row; None behind the last one, and if the document is gone."""
    row = connection.execute(
        "SELECT bytes FROM originals WHERE document = ? AND piece = ?", (document, number)
    ).fetchone()
    return None if row is None else bytes(row[0])


def _exist(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'originals'").fetchone() is not None
