"""`restore`: what is in an archive, put into a data folder, a Redis and a PostgreSQL that have nothing.

All of it is read and compared with its manifest before anything is written. Then it is written beside its place, and
put in place at the end; what fails on the way leaves nothing. Knows the order; knows no keys and tables.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rag_service.backup import data_folder, redis_writing
from rag_service.backup.archive import REDIS, Read, unpack, verified
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import STORES, Manifest, StoreKind
from rag_service.backup.progress import Progress, silent
from rag_service.backup.redis_entry import Entry, loads
from rag_service.backup.redis_reading import TIMEOUT_S
from rag_service.settings import Settings
from retriever.stores import store
from workers.broker.app import RedisClient, make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.errors import QueueUnavailable

STAGING = ".restore-"
"""How the folder begins in which a restore puts things together, in the data folder."""
WRITTEN = "written"
"""In that folder: what goes into the data folder."""
PRIVATE = "redis"
"""Folder of the private Redis in the data folder."""


def check(file: Path, progress: Progress = silent) -> Manifest:
    """Read all of an archive and compare it with its manifest.

    Raises:
        BackupError: it is damaged, or none that this version reads.
    """
    manifest = verified(file, _told(file, "Checking", progress))
    _check_layout(manifest)
    return manifest


def restore(
    file: Path, manifest: Manifest, settings: Settings, redis_url: str | None, progress: Progress = silent
) -> int:
    """Put everything in place; returns the number of keys that had expired by now.

    Nothing else may use the data folder meanwhile.

    Args:
        manifest: what `check` gave.
        redis_url: of the Redis that gets the keys; None for the private one of the data folder.

    Raises:
        BackupError: the archive does not fit the settings, or there is something already; nothing was changed.
        OSError: the data folder cannot be written; nothing was changed.
        EmbeddedRedisError: the private Redis cannot run here.
        QueueUnavailable, StoreUnavailable: Redis or PostgreSQL is away; nothing was changed.
    """
    _check_store(manifest, settings)
    _check_empty(settings, redis_url, manifest)
    for left in settings.data_dir.glob(f"{STAGING}*"):  # of a restore that was killed
        shutil.rmtree(left, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=settings.data_dir))
    try:
        unpack(file, lambda name: _place(staging, name), _told(file, "Unpacking", progress))
        progress("Restoring", 0, None)
        expired = _put(staging, settings, manifest, redis_url)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    if settings.store is not None:
        from rag_service.backup import tables

        progress("Building indexes", 0, None)
        tables.build_indexes(settings.store, manifest.collections)
    return expired


def _check_layout(manifest: Manifest) -> None:
    layout = manifest.layouts.get(data_folder.LAYOUT, store.SCHEMA_VERSION)
    if manifest.store == "embedded" and layout > store.SCHEMA_VERSION:
        raise BackupError(
            f"The archive has collections in layout {layout}, and this version reads up to {store.SCHEMA_VERSION}: "
            f"restore it with rag-service {manifest.service_version} or a later version. Nothing was changed."
        )


def _check_store(manifest: Manifest, settings: Settings) -> None:
    wanted: StoreKind = "embedded" if settings.store is None else "postgres"
    if manifest.store != wanted:
        raise BackupError(
            f"The archive is of {STORES[manifest.store]}, and the settings name {STORES[wanted]}. "
            f"{'Unset' if wanted == 'postgres' else 'Set'} RAG_STORE_URL, restore, and move the collections with "
            "`rag collections copy`. Nothing was changed."
        )


def _check_empty(settings: Settings, redis_url: str | None, manifest: Manifest) -> None:
    data_folder.refuse_contents(settings.data_dir)
    if settings.store is not None:
        from rag_service.backup import tables

        tables.refuse_contents(settings.store, manifest)
    if redis_url is not None:
        with _client(redis_url) as client:
            redis_writing.refuse_workers(client)
            redis_writing.refuse_keys(client)
    elif (settings.data_dir / PRIVATE).exists():
        with EmbeddedRedis(settings.data_dir.resolve() / PRIVATE) as server, _client(server.url) as client:
            redis_writing.refuse_keys(client)


def _put(staging: Path, settings: Settings, manifest: Manifest, redis_url: str | None) -> int:
    """Write everything beside its place; then, at the end, put it in place. An exception leaves nothing."""
    written = staging / WRITTEN
    written.mkdir(mode=0o700, exist_ok=True)
    names = list(data_folder.PLACES)
    steps: list[Callable[[], object]] = []
    with contextlib.ExitStack() as stack:
        entries = map(loads, stack.enter_context((staging / REDIS).open(encoding="utf-8")))
        if redis_url is None:
            names.append(PRIVATE)
            expired = _fill_private(written / PRIVATE, entries)
        else:
            expired, take_names = stack.enter_context(_filling(redis_url, entries))
            steps.append(take_names)
        if settings.store is not None:
            from rag_service.backup import tables

            steps.append(stack.enter_context(tables.restored(settings.store, staging, manifest)))
        stack.enter_context(data_folder.put_in_place(written, settings.data_dir, names))
        for step in steps:
            step()
    return expired


def _fill_private(folder: Path, entries: Iterable[Entry]) -> int:
    """Make a private Redis with these keys, on the disk at the end; returns how many of them had expired."""
    with EmbeddedRedis(folder.resolve()) as server, _client(server.url) as client:
        staged, expired = redis_writing.stage(client, entries)
        redis_writing.take_names(client, staged)
    return expired


@contextlib.contextmanager
def _filling(url: str, entries: Iterable[Entry]) -> Iterator[tuple[int, Callable[[], object]]]:
    """Write the keys beside their names. Gives how many had expired, and a function that gives the others their names.

    An exception within the context deletes what was written.
    """
    named: list[str] = []
    with _client(url) as client:
        try:
            staged, expired = redis_writing.stage(client, entries)

            def take_names() -> None:
                named.extend(staged)
                redis_writing.take_names(client, staged)

            yield expired, take_names
        except BaseException:
            with contextlib.suppress(QueueUnavailable):  # then what is left is deleted by the next restore
                redis_writing.discard(client, named)
            raise


@contextlib.contextmanager
def _client(url: str) -> Iterator[RedisClient]:
    client = make_redis(url, decode=False, timeout_s=TIMEOUT_S)
    try:
        yield client
    finally:
        client.close()


def _place(staging: Path, member: str) -> Path:
    """Where a member is unpacked to."""
    if member == REDIS or member.startswith("postgres/"):
        return staging / member
    return staging / WRITTEN / data_folder.place_of(member)


def _told(file: Path, what: str, progress: Progress) -> Read:
    size = file.stat().st_size if file.exists() else 0
    return lambda done: progress(what, done, size)
