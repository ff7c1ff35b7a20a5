"""Collections and ingests in PostgreSQL, saved from one database and restored into another."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from rag_service.backup import restoring, saving
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import Manifest
from rag_service.settings import Settings
from retriever import Library, SourceDocument
from retriever.postgres.stores import PostgresStores
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress
from workers.ingests.postgres_ledger import PostgresJobLedger

UPLOAD = bytes(range(256)) * 9000
SOURCES = [
    SourceDocument(document_id="kiwi", text="# Kiwi\n\nA kiwi is green.", metadata={"date": "2024-05-01", "n": [1, 2]}),
    SourceDocument(document_id="plum\\N", text="A plum is blue.\n" * 90, title="Plum \\ and\ttab"),
]


@pytest.fixture
def urls(postgres: PostgresServer) -> Iterator[tuple[str, str]]:
    """Two databases."""
    with postgres.database() as one, postgres.database() as other:
        yield one, other


@contextmanager
def library(url: str) -> Iterator[Library]:
    opened = Library(Path("unused"), HashEmbedder(), stores=PostgresStores(url), keep_originals=True)
    try:
        yield opened
    finally:
        opened.close()


def settings(url: str, data_dir: Path) -> Settings:
    return Settings(_env_file=None, data_dir=data_dir, store_url=url)  # type: ignore[call-arg,arg-type]


def fill(url: str, redis_url: str, folder: Path) -> None:
    """Collections of two tenants, a third one that only a key tells of, and ingests that have ended, run and wait."""
    (folder / "kiwi.md").write_text("# Kiwi\n\nA kiwi is green.")
    with library(url) as one:
        for tenant in ("default", "acme", "keyed"):
            one.of(tenant).create("fruit").ingest(SOURCES)
        file = SourceDocument(document_id="file", name="kiwi.md", path=folder / "kiwi.md")
        one.of("acme").collection("fruit").ingest([file])
        one.create("gone").ingest(SOURCES)
        one.delete("gone")
    with closing(PostgresJobLedger(url, folder)) as ledger:
        for number, name in enumerate(("done", "runs", "waits")):
            (folder / name).mkdir()
            (folder / name / "0").write_bytes(UPLOAD)
            job = IngestJob(
                job_id=name, tenant="acme", collection="fruit", created=time.time() - 9 + number,
                files=[IngestFile(name="x.bin", path=str(folder / name / "0"))],
            )  # fmt: skip
            ledger.add(job)
        claim = ledger.take("old worker")
        assert claim is not None
        claim.end(JobProgress(job_id="done", status="succeeded"))
        assert ledger.take("old worker") is not None
    with closing(make_redis(redis_url)) as client:
        client.hset(keys.API_KEYS, "id", json.dumps({"tenant": "keyed"}))


def saved(url: str, redis_url: str, file: Path) -> Manifest:
    with closing(make_redis(redis_url, decode=False)) as client:
        return saving.save(file, settings(url, file.parent), client)


def restored(file: Path, url: str, data_dir: Path) -> int:
    """Into a database and a private Redis."""
    data_dir.mkdir()
    return restoring.restore(file, restoring.check(file), settings(url, data_dir), None)


def test_a_database_is_restored(urls: tuple[str, str], redis_url: str, tmp_path: Path) -> None:
    fill(urls[0], redis_url, tmp_path)
    manifest = saved(urls[0], redis_url, tmp_path / "all")
    assert [(one.tenant, one.name, one.documents) for one in manifest.collections] == [
        ("acme", "fruit", 3), ("default", "fruit", 2), ("keyed", "fruit", 2),
    ]  # fmt: skip
    assert (manifest.counts.jobs, manifest.counts.api_keys) == (3, 1)
    restored(tmp_path / "all", urls[1], tmp_path / "data")
    with library(urls[0]) as one, library(urls[1]) as two:
        for tenant in ("default", "acme", "keyed"):
            here, there = one.of(tenant).collection("fruit"), two.of(tenant).collection("fruit")
            assert there.documents() == here.documents()
            assert there.stats() == here.stats()
            for mode in ("hybrid", "dense", "lexical"):
                assert there.search("green kiwi", mode=mode) == here.search("green kiwi", mode=mode)
            dated = {"date": {"$gte": "2024-01-01"}}
            assert there.search("kiwi", filter=dated) == here.search("kiwi", filter=dated)
            for source in SOURCES:
                assert there.get(source.document_id or "") == here.get(source.document_id or "")
        found = two.of("acme").collection("fruit").original("file")
        assert found is not None
        assert b"".join(found.pieces) == (tmp_path / "kiwi.md").read_bytes()
        for tenant in ("default", "new"):  # the next rows get numbers of their own
            collection = two.of(tenant).create("more")
            collection.ingest(SOURCES)
            assert collection.search("green kiwi")[0].document_id == "kiwi"
        two.collection("fruit").ingest([SourceDocument(document_id="kiwi", text="Kiwis are brown."), *SOURCES[1:]])
        assert two.collection("fruit").search("brown")[0].text == "Kiwis are brown."
        two.collection("fruit").delete("plum\\N")
    with closing(PostgresJobLedger(urls[1], tmp_path / "fetched")) as ledger:
        ledger.reclaim("new worker", ())
        for name in ("runs", "waits"):
            claim = ledger.take("new worker")
            assert claim is not None
            assert claim.job.job_id == name
            with claim.local_files() as (file,):
                assert Path(file.path or "").read_bytes() == UPLOAD
            claim.end(JobProgress(job_id=name, status="succeeded"))
        assert [job.status for job in ledger.jobs("acme", 10)] == ["succeeded"] * 3
        assert ledger.counts().ended["succeeded"] == 3
    with EmbeddedRedis(tmp_path / "data" / "redis") as private, closing(make_redis(private.url)) as client:
        assert client.keys("*") == [keys.API_KEYS]


def test_the_fence_between_tenants_stands_after_the_restore(
    urls: tuple[str, str], redis_url: str, tmp_path: Path
) -> None:
    fill(urls[0], redis_url, tmp_path)
    saved(urls[0], redis_url, tmp_path / "all")
    restored(tmp_path / "all", urls[1], tmp_path / "data")
    with psycopg.connect(urls[1]) as connection:
        for table in ("rag_store.collections", "rag_store.chunks", "rag_store.originals", "rag_ingests.ingest_jobs"):
            connection.execute("SELECT set_config('app.tenant', 'acme', false)")
            rows = connection.execute(f"SELECT DISTINCT tenant FROM {table}".encode()).fetchall()
            assert rows == [("acme",)]


@pytest.mark.parametrize("tenant", ["default", "hidden"])
def test_a_database_with_collections_is_refused_and_stays(
    tenant: str, urls: tuple[str, str], redis_url: str, tmp_path: Path
) -> None:
    fill(urls[0], redis_url, tmp_path)
    saved(urls[0], redis_url, tmp_path / "all")
    with library(urls[1]) as two:
        two.of(tenant).create("own").ingest(SOURCES)
        with pytest.raises(BackupError, match="merges nothing"):
            restored(tmp_path / "all", urls[1], tmp_path / "data")
        assert list((tmp_path / "data").iterdir()) == []
        assert two.of(tenant).collections() == ["own"]
        assert len(two.of(tenant).collection("own").documents()) == 2
        assert two.of("acme").collections() == []


def test_tables_in_use_are_refused(
    urls: tuple[str, str], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(urls[0], redis_url, tmp_path)
    saved(urls[0], redis_url, tmp_path / "all")
    with library(urls[1]) as two:
        assert two.collections() == []
    monkeypatch.setattr("rag_service.backup.tables.LOCK_S", 0.05)
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(urls[1]))
        connection.execute("SELECT * FROM rag_store.chunks")  # a transaction that goes on
        with pytest.raises(BackupError, match="Stop the service"):
            restored(tmp_path / "all", urls[1], tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_an_archive_of_other_tables_is_refused(urls: tuple[str, str], redis_url: str, tmp_path: Path) -> None:
    fill(urls[0], redis_url, tmp_path)
    manifest = saved(urls[0], redis_url, tmp_path / "all")
    (tmp_path / "data").mkdir()
    target = settings(urls[1], tmp_path / "data")
    for changes in (
        {"layouts": {"rag_store": 1}},
        {"columns": {**manifest.columns, "rag_store.terms": ["id", "evil"]}},
    ):
        other = manifest.model_copy(update=changes)
        with pytest.raises(BackupError, match=r"another version|other columns"):
            restoring.restore(tmp_path / "all", other, target, None)
    with library(urls[1]) as two:
        assert two.of("acme").collections() == []
