"""`save`: an archive of all that a service keeps, taken while it runs.

The order makes it whole. First come the accepted ingests, then the ingests that have ended, then the collections: so a
document that was accepted before the backup began is in its collection, or its ingest is in the archive and runs again.
Knows the order; knows no files, keys and tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rag_service.answering.models import models_of
from rag_service.backup import data_folder, redis_reading
from rag_service.backup.archive import REDIS, ArchiveWriter, writing
from rag_service.backup.manifest import Manifest
from rag_service.backup.progress import Progress, silent
from rag_service.settings import Settings
from retriever.stores import store
from workers.broker.app import RedisClient

SHOWN = 100
"""Keys after which progress is told again."""


def save(
    file: Path, settings: Settings, client: RedisClient, *, replace: bool = False, progress: Progress = silent
) -> Manifest:
    """Write the archive `file`; returns its manifest.

    Args:
        client: of the service's Redis, with replies in bytes and a long timeout.
        replace: whether a file of that name is replaced.

    Raises:
        BackupError: there is such a file, or something cannot be read.
        OSError: the archive cannot be written.
        QueueUnavailable, StoreUnavailable: Redis or PostgreSQL is away.
    """
    embedded = settings.store is None
    manifest = Manifest(
        service_version=version("rag-service"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        store="embedded" if embedded else "postgres",
        layouts={data_folder.LAYOUT: store.SCHEMA_VERSION} if embedded else {},
        models=_models(settings),
    )
    with writing(file, replace=replace) as archive:
        if embedded:
            manifest.counts.jobs = data_folder.save_jobs(settings.uploads_folder, archive)
        tenants = _save_redis(client, archive, manifest, progress)
        if settings.store is None:
            _save_collections(settings.data_dir, archive, manifest, progress)
        else:
            from rag_service.backup.tables import save_tables

            progress("Saving PostgreSQL", 0, None)
            save_tables(settings.store, tenants, archive, manifest)
        manifest.counts.collections = len(manifest.collections)
        manifest.counts.documents = sum(one.documents for one in manifest.collections)
        archive.end(manifest)
    return manifest


def _save_redis(client: RedisClient, archive: ArchiveWriter, manifest: Manifest, progress: Progress) -> set[str]:
    """Save the keys; returns the tenants that they tell of."""
    tenants: set[str] = set()
    lines = archive.folder / REDIS
    with lines.open("w", encoding="utf-8") as file:
        for entry in redis_reading.read_all(client):
            file.write(f"{entry.dumps()}\n")
            redis_reading.count(entry, manifest.counts)
            tenants |= redis_reading.tenants_of(entry)
            if manifest.counts.redis_keys % SHOWN == 0:
                progress("Saving sessions, answers and keys", manifest.counts.redis_keys, None)
    archive.add(REDIS, lines)
    lines.unlink()
    return tenants


def _save_collections(data_dir: Path, archive: ArchiveWriter, manifest: Manifest, progress: Progress) -> None:
    found = data_folder.collections(data_dir)
    for done, (tenant, folder) in enumerate(found):
        progress(f"Saving collection {folder.name}", done, len(found))
        if (saved := data_folder.save_collection(tenant, folder, archive)) is not None:
            manifest.collections.append(saved)


def _models(settings: Settings) -> dict[str, str]:
    """The settings that name models, with their values."""
    named = {f"RAG_{name.upper()}": getattr(settings, name) for name in models_of(settings)}
    named |= {f"RAG_UPSTREAM ({endpoint.name})": endpoint.model for endpoint in settings.endpoints}
    return {name: value for name, value in named.items() if value is not None}
