"""The uploads of accepted jobs in PostgreSQL, in pieces, and their way from and to this machine's disk.

Knows files and rows; knows no order of jobs. The API receives an upload in a folder of its own; `store` puts it into
the transaction that accepts the job. `fetched` gives a worker its files for as long as it runs the job.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from workers.broker.ingest_messages import IngestFile
from workers.ingests import ledger_sql
from workers.ingests.database import Connection, Database
from workers.ingests.files import ABANDONED_S

PIECE_BYTES = 1 << 20
FETCHED = ".fetched-"
"""How folders of fetched files begin."""


def store(connection: Connection, job: int, files: Sequence[IngestFile]) -> None:
    """Write the files of a job that are on this machine's disk. Raises OSError if one cannot be read."""
    for number, file in enumerate(files):
        if file.path is None:
            continue
        with Path(file.path).open("rb") as upload:
            piece = 0
            while data := upload.read(PIECE_BYTES):
                values = {"job": job, "file": number, "piece": piece, "bytes": data}
                connection.execute(ledger_sql.ADD_PIECE, values)
                piece += 1


@contextmanager
def fetched(
    database: Database, tenant: str, job: int, files: Sequence[IngestFile], folder: Path
) -> Iterator[list[IngestFile]]:
    """The files with paths on this machine, in a folder that is deleted at the end.

    Raises:
        OSError: a file cannot be written here.
        DatabaseUnavailable: PostgreSQL cannot be reached.
    """
    if all(file.path is None for file in files):
        yield list(files)
        return
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=FETCHED, dir=folder))
    try:
        with database.transaction(tenant) as connection:
            here = [_fetch(connection, job, number, file, own) for number, file in enumerate(files)]
        yield here
    finally:
        shutil.rmtree(own, ignore_errors=True)


def tidy(folder: Path) -> None:
    """Delete what processes that were killed left behind."""
    for entry in folder.glob("*"):
        try:
            if entry.is_dir() and time.time() - entry.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(entry, ignore_errors=True)
        except FileNotFoundError:  # another process was first
            continue


def _fetch(connection: Connection, job: int, number: int, file: IngestFile, folder: Path) -> IngestFile:
    if file.path is None:
        return file
    path = folder / str(number)
    with path.open("wb") as target, connection.cursor(binary=True) as cursor:
        piece = 0
        while row := cursor.execute(ledger_sql.PIECE, {"job": job, "file": number, "piece": piece}).fetchone():
            target.write(row[0])
            piece += 1
    return file.model_copy(update={"path": str(path)})
