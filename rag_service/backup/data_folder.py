"""What the embedded store has in the data folder: collections, and the uploads of accepted ingests.

A collection is saved as its SQLite file is at one moment, while others read and write it. Its FAISS index is not saved:
it is a cache of that file and made again when it is needed. Collections that are being copied or indexed anew are not
complete yet, so they are not saved.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from rag_service.backup.archive import NAMES, ArchiveWriter
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import SavedCollection
from retriever.errors import InvalidName
from retriever.library import check_name
from retriever.stores import store
from retriever.types import DEFAULT_TENANT
from workers.ingests.files import ENDED_NAME, FILE_NAME, sync

COLLECTIONS, TENANTS, UPLOADS = "collections", "tenants", "uploads"
PLACES = (COLLECTIONS, TENANTS, UPLOADS)
"""Folders of the data folder that a restore fills."""
LAYOUT = "collection"
"""The name of `store.SCHEMA_VERSION` in a manifest."""
TRIES = 5


def save_jobs(uploads: Path, archive: ArchiveWriter) -> int:
    """Save the ingests that are accepted; returns how many of them have not ended.

    Do it before anything else: a job that ends meanwhile is in Redis as ended, and its documents are in its collection.
    """
    waiting = 0
    for folder in sorted(one for one in uploads.iterdir() if one.is_dir()) if uploads.is_dir() else []:
        copy = archive.folder / folder.name
        if _copied(folder, copy):
            waiting += not (copy / ENDED_NAME).exists()
            for file in sorted(copy.iterdir()):
                archive.add(f"{UPLOADS}/{folder.name}/{file.name}", file)
        shutil.rmtree(copy, ignore_errors=True)
    return waiting


def _copied(folder: Path, copy: Path) -> bool:
    """Copy a job's folder as it is at one moment; False if it is no job, or gone."""
    for _ in range(TRIES):
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700)
        try:
            names = {file.name for file in folder.iterdir() if file.is_file() and not file.name.endswith(".new")}
            if FILE_NAME not in names:  # an upload that nobody has accepted
                return False
            for name in names:
                shutil.copy2(folder / name, copy / name)
            return True
        except FileNotFoundError:  # the job ended, and its uploads are deleted
            continue
    return False


def collections(data_dir: Path) -> list[tuple[str, Path]]:
    """Tenant and folder of every complete collection, in order."""
    found = [(DEFAULT_TENANT, folder) for folder in _complete(data_dir / COLLECTIONS)]
    tenants = sorted((data_dir / TENANTS).iterdir()) if (data_dir / TENANTS).is_dir() else []
    for tenant in filter(_is_name, tenants):
        found += [(tenant.name, folder) for folder in _complete(tenant / COLLECTIONS)]
    return found


def save_collection(tenant: str, folder: Path, archive: ArchiveWriter) -> SavedCollection | None:
    """Save a collection as it is at one moment; None if it is gone.

    Raises:
        BackupError: its file cannot be read.
    """
    copy = archive.folder / store.FILE_NAME
    copy.unlink(missing_ok=True)
    source = f"{(folder / store.FILE_NAME).absolute().as_uri()}?mode=rw"
    try:
        with (
            contextlib.closing(sqlite3.connect(source, uri=True, timeout=store.BUSY_SECONDS)) as there,
            contextlib.closing(sqlite3.connect(copy)) as here,
        ):
            there.execute("BEGIN")
            row = there.execute("SELECT embedder, (SELECT count(*) FROM documents) FROM collection").fetchone()
            there.backup(here)  # of that moment, in one step
    except sqlite3.Error as error:
        if not (folder / store.FILE_NAME).exists():
            return None
        raise BackupError(f"The collection in {folder} cannot be read ({error}). No backup was made.") from error
    archive.add(f"{COLLECTIONS}/{tenant}/{folder.name}.sqlite3", copy)
    copy.unlink()
    return SavedCollection(tenant=tenant, name=folder.name, embedder=row[0], documents=row[1])


def refuse_contents(data_dir: Path) -> None:
    """Raises BackupError if the data folder has collections or ingests."""
    for name in PLACES:
        if _files(data_dir / name):
            raise BackupError(
                f"{data_dir / name} is not empty, and a restore merges nothing. Set RAG_DATA_DIR to a new folder, or "
                "move what is in it away."
            )


def place_of(member: str) -> Path:
    """Where a member of an archive belongs in the data folder."""
    match = NAMES.fullmatch(member)
    assert match is not None
    if match["job"]:
        return Path(UPLOADS) / match["job"] / match["file"]
    home = Path() if match["tenant"] == DEFAULT_TENANT else Path(TENANTS) / match["tenant"]
    return home / COLLECTIONS / match["collection"] / store.FILE_NAME


@contextlib.contextmanager
def put_in_place(staged: Path, data_dir: Path, names: Iterable[str]) -> Iterator[None]:
    """Exchange folders of `staged` with those of the data folder, which have nothing of use.

    An exception within the context puts those of the data folder back.
    """
    done: list[tuple[Path, Path]] = []

    def move(one: Path, other: Path) -> None:
        if one.exists():
            one.rename(other)
            done.append((one, other))

    try:
        for name in names:
            if (staged / name).exists():
                move(data_dir / name, staged / f"{name}.before")
                move(staged / name, data_dir / name)
        sync(data_dir)
        yield
    except BaseException:
        for one, other in reversed(done):
            other.rename(one)
        raise


def _complete(folder: Path) -> list[Path]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [one for one in found if _is_name(one) and (one / store.FILE_NAME).is_file()]


def _is_name(folder: Path) -> bool:
    """Whether it is the folder of a tenant or collection; those that are not complete have other names."""
    try:
        check_name(folder.name)
    except InvalidName:
        return False
    return True


def _files(folder: Path) -> bool:
    return any(not entry.is_dir() for entry in folder.rglob("*")) if folder.is_dir() else folder.exists()
