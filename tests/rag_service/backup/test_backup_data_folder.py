"""Collections and uploads of the embedded store, saved while others use them, and put back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from rag_service.backup import data_folder, restoring, saving
from rag_service.backup.archive import unpack, writing
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import Manifest
from rag_service.settings import Settings
from retriever import Collection, Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress
from workers.ingests.files import JobFiles
from workers.ingests.redis_ledger import RedisJobLedger


@contextmanager
def library(folder: Path) -> Iterator[Library]:
    opened = Library(folder, HashEmbedder(), keep_originals=True)
    try:
        yield opened
    finally:
        opened.close()


def settings(data_dir: Path) -> Settings:
    return Settings(_env_file=None, data_dir=data_dir)  # type: ignore[call-arg]


def saved(data_dir: Path, redis_url: str, file: Path) -> Manifest:
    with closing(make_redis(redis_url, decode=False)) as client:
        return saving.save(file, settings(data_dir), client)


def restored(file: Path, data_dir: Path, redis_url: str | None) -> None:
    data_dir.mkdir(exist_ok=True)
    restoring.restore(file, restoring.check(file), settings(data_dir), redis_url)


def original(collection: Collection) -> bytes:
    found = collection.original("kiwi")
    assert found is not None
    return b"".join(found.pieces)


def accepted(folder: Path, job_id: str, tenant: str = "t") -> IngestJob:
    """A job with one upload, as the API accepts it."""
    (folder / job_id).mkdir(parents=True)
    (folder / job_id / "0").write_bytes(b"# Kiwi\n\nA kiwi is green.")
    file = IngestFile(name="kiwi.md", path=str(folder / job_id / "0"))
    return IngestJob(job_id=job_id, tenant=tenant, collection="fruit", files=[file], created=1.0)


def test_collections_of_all_tenants_with_their_originals(tmp_path: Path, redis_url: str) -> None:
    with library(tmp_path / "one") as one:
        for tenant in ("default", "acme"):
            for name in ("fruit", "trees"):
                text = f"A kiwi of {tenant} in {name} is green."
                (tmp_path / "kiwi.txt").write_text(text)
                source = SourceDocument(document_id="kiwi", name="kiwi.txt", path=tmp_path / "kiwi.txt")
                one.of(tenant).create(name).ingest([source])
        (tmp_path / "one" / "collections" / ".copy-x").mkdir()
        (tmp_path / "one" / "collections" / "nothing").mkdir()
        manifest = saved(tmp_path / "one", redis_url, tmp_path / "all")
        assert [(row.tenant, row.name, row.documents, row.embedder) for row in manifest.collections] == [
            (tenant, name, 1, "hash-64") for tenant in ("default", "acme") for name in ("fruit", "trees")
        ]
        restored(tmp_path / "all", tmp_path / "two", None)
        with library(tmp_path / "two") as two:
            for tenant in ("default", "acme"):
                assert two.of(tenant).collections() == ["fruit", "trees"]
                for name in ("fruit", "trees"):
                    here, there = one.of(tenant).collection(name), two.of(tenant).collection(name)
                    assert there.search("green kiwi") == here.search("green kiwi")
                    assert there.get("kiwi") == here.get("kiwi")
                    assert original(there) == original(here) == f"A kiwi of {tenant} in {name} is green.".encode()


def test_a_collection_is_saved_whole_while_documents_go_in(tmp_path: Path, redis_url: str) -> None:
    with library(tmp_path / "one") as one, ThreadPoolExecutor(1) as pool:
        collection = one.create("fruit")

        def ingest() -> None:
            for number in range(30):
                pair = [SourceDocument(document_id=f"{side}{number}", text="A kiwi. " * 200) for side in "ab"]
                collection.ingest(pair, job=f"job{number}")

        work = pool.submit(ingest)
        backups = 0
        while not work.done() or not backups:
            saved(tmp_path / "one", redis_url, tmp_path / f"{backups}")
            backups += 1
        work.result()
    counted = []
    for number in range(backups):
        restored(tmp_path / f"{number}", tmp_path / f"data{number}", None)
        with library(tmp_path / f"data{number}") as two:
            there = two.collection("fruit")
            ids = [document.id for document in there.documents()]
            assert len(there.search("kiwi", top_k=100)) == min(100, there.stats().chunks)
            assert all(there.get(one).text == "A kiwi. " * 200 for one in ids)
            counted.append(len(ids))
    assert counted == sorted(counted)


@pytest.mark.parametrize("shared", [True, False])
def test_an_accepted_ingest_runs_after_the_restore(tmp_path: Path, redis_url: str, shared: bool) -> None:
    uploads = tmp_path / "one" / "uploads"
    with closing(make_redis(redis_url)) as client:
        ledger = RedisJobLedger(client, JobFiles(uploads))
        for number, job_id in enumerate(("done", "runs", "waits")):
            ledger.add(accepted(uploads, job_id).model_copy(update={"created": time.time() - 9 + number}))
        claim = ledger.take("worker")
        assert claim is not None
        claim.end(JobProgress(job_id="done", status="succeeded", done=1, total=1))
        assert ledger.take("worker") is not None
        (uploads / "unfinished").mkdir()
        (uploads / "unfinished" / "0").write_bytes(b"half")
        manifest = saved(tmp_path / "one", redis_url, tmp_path / "all")
        assert manifest.counts.jobs == 3
        client.flushall()
    restored(tmp_path / "all", tmp_path / "two", redis_url if shared else None)
    private = EmbeddedRedis(tmp_path / "two" / "redis")
    url = redis_url if shared else private.start()
    try:
        with closing(make_redis(url)) as client:
            files = JobFiles(tmp_path / "two" / "uploads")
            ledger = RedisJobLedger(client, files)
            for job_id in ("runs", "waits"):  # in their order
                claim = ledger.take("another worker")
                assert claim is not None
                assert (claim.job.job_id, claim.attempts) == (job_id, 1)
                assert Path(claim.job.files[0].path or "").read_bytes() == b"# Kiwi\n\nA kiwi is green."
                claim.end(JobProgress(job_id=job_id, status="succeeded"))
            assert ledger.take("another worker") is None
            assert {job.job_id: job.status for job in ledger.jobs("t", 10)} == dict.fromkeys(
                ("done", "runs", "waits"), "succeeded"
            )
            assert "unfinished" not in files.ids()
    finally:
        private.stop()


def test_a_job_that_ends_while_it_is_copied_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = JobFiles(tmp_path / "uploads")
    files.keep(accepted(files.folder, "ends"))
    files.keep(accepted(files.folder, "goes"))
    copy = shutil.copy2

    def meanwhile(source: Path, target: Path) -> None:
        if source.parent.name == "ends" and not (source.parent / "ended.json").exists():
            files.end("ends", JobProgress(job_id="ends", status="succeeded"))
        if source.parent.name == "goes":
            files.drop("goes")
        copy(source, target)

    monkeypatch.setattr(data_folder.shutil, "copy2", meanwhile)
    with writing(tmp_path / "all", replace=False) as archive:
        assert data_folder.save_jobs(files.folder, archive) == 0
        archive.end(Manifest(service_version="1", created="", store="embedded", layouts={}, models={}))
    assert unpack(tmp_path / "all", lambda name: tmp_path / name.replace("/", "-")).members.keys() == {
        "uploads/ends/job.json",
        "uploads/ends/ended.json",
    }


@pytest.mark.parametrize("step", ["save_jobs", "read_all", "collections", "save_collection"])
def test_an_ingest_that_ends_during_the_backup_is_not_lost(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It was accepted before the backup; whenever it ends, its document is there or it runs again."""
    uploads = tmp_path / "one" / "uploads"
    with library(tmp_path / "one") as one, closing(make_redis(redis_url)) as client:
        one.of("t").create("fruit")
        ledger = RedisJobLedger(client, JobFiles(uploads))
        ledger.add(accepted(uploads, "job").model_copy(update={"created": time.time()}))
        module = saving.redis_reading if step == "read_all" else data_folder
        original_step = getattr(module, step)

        def meanwhile(*arguments: object) -> object:
            if (claim := ledger.take("worker")) is not None:
                one.of("t").collection("fruit").ingest([SourceDocument(document_id="kiwi", text="A kiwi is green.")])
                claim.end(JobProgress(job_id="job", status="succeeded"))
            return original_step(*arguments)

        monkeypatch.setattr(module, step, meanwhile)
        saved(tmp_path / "one", redis_url, tmp_path / "all")
    restored(tmp_path / "all", tmp_path / "two", None)
    with (
        library(tmp_path / "two") as two,
        EmbeddedRedis(tmp_path / "two" / "redis") as server,
        closing(make_redis(server.url)) as client,
    ):
        ledger = RedisJobLedger(client, JobFiles(tmp_path / "two" / "uploads"))
        claim = ledger.take("worker")
        assert (claim is not None) == (step in ("collections", "save_collection"))
        assert [document.id for document in two.of("t").collection("fruit").documents()] == ["kiwi"]
        (job,) = ledger.jobs("t", 10)
        assert job.status == ("succeeded" if claim is None else "running")


@pytest.fixture
def archive(tmp_path: Path, redis_url: str) -> Path:
    """Of a collection, a job and a key."""
    with library(tmp_path / "one") as one:
        one.create("fruit").ingest([SourceDocument(document_id="kiwi", text="A kiwi is green.")])
    JobFiles(tmp_path / "one" / "uploads").keep(accepted(tmp_path / "one" / "uploads", "job"))
    with closing(make_redis(redis_url)) as client:
        client.set("rag:t:rewrite:x", "y")
        saved(tmp_path / "one", redis_url, tmp_path / "all")
        client.flushall()
    return tmp_path / "all"


def fill_collections(data_dir: Path, url: str) -> None:
    with library(data_dir) as held:
        held.create("own")


def fill_uploads(data_dir: Path, url: str) -> None:
    JobFiles(data_dir / "uploads").keep(accepted(data_dir / "uploads", "own"))


def fill_private_redis(data_dir: Path, url: str) -> None:
    with EmbeddedRedis(data_dir / "redis") as server, closing(make_redis(server.url)) as client:
        client.hset(keys.API_KEYS, "id", "{}")


def fill_shared_redis(data_dir: Path, url: str) -> None:
    with closing(make_redis(url)) as client:
        client.hset(keys.API_KEYS, "id", "{}")


@pytest.mark.parametrize(
    ("fill", "shared", "says"),
    [
        (fill_collections, False, "collections is not empty"),
        (fill_uploads, True, "uploads is not empty"),
        (fill_private_redis, False, "rag:api_keys"),
        (fill_shared_redis, True, "rag:api_keys"),
    ],
)
def test_what_is_there_already_is_refused_and_stays(
    archive: Path, tmp_path: Path, redis_url: str, fill: Callable[[Path, str], None], shared: bool, says: str
) -> None:
    data_dir = tmp_path / "two"
    data_dir.mkdir()
    fill(data_dir, redis_url)
    before = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file() and "redis" not in path.parts}
    with pytest.raises(BackupError, match=says):
        restored(archive, data_dir, redis_url if shared else None)
    after = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file() and "redis" not in path.parts}
    assert after == before
    with closing(make_redis(redis_url)) as client:
        assert set(client.keys("*")) <= {keys.API_KEYS}


def test_what_a_service_without_contents_left_is_no_hindrance(archive: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "two"
    for name in ("collections", "tenants/acme/collections", "uploads", "logs", ".restore-killed/written"):
        (data_dir / name).mkdir(parents=True)
    (data_dir / "key").write_text("mine")
    with EmbeddedRedis(data_dir / "redis") as server, closing(make_redis(server.url)) as client:
        client.hset(keys.WORKER_INFO, "gone", "{}")
    restored(archive, data_dir, None)
    assert (data_dir / "key").read_text() == "mine"
    assert not list(data_dir.glob(".restore-*"))
    with library(data_dir) as there:
        assert there.collections() == ["fruit"]
    with EmbeddedRedis(data_dir / "redis") as server, closing(make_redis(server.url)) as client:
        assert client.keys("*") == ["rag:t:rewrite:x"]


def test_a_restore_that_fails_at_its_end_leaves_nothing(
    archive: Path, tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "two"
    take_names = restoring.redis_writing.take_names

    def fail(client: object, staged: list[str]) -> None:
        take_names(client, staged)
        assert (data_dir / "collections" / "fruit").is_dir()
        raise OSError("the disk is full")

    monkeypatch.setattr(restoring.redis_writing, "take_names", fail)
    with pytest.raises(OSError, match="the disk is full"):
        restored(archive, data_dir, redis_url)
    assert list(data_dir.iterdir()) == []
    with closing(make_redis(redis_url)) as client:
        assert client.keys("*") == []


def test_an_archive_of_another_store_or_layout_is_refused(archive: Path, tmp_path: Path) -> None:
    manifest = restoring.check(archive)
    other = Settings(_env_file=None, data_dir=tmp_path, store_url="postgresql://x/y")  # type: ignore[call-arg]
    with pytest.raises(BackupError, match="Unset RAG_STORE_URL"):
        restoring.restore(archive, manifest, other, None)
    later = manifest.model_copy(update={"layouts": {data_folder.LAYOUT: 99}})
    with pytest.raises(BackupError, match="layout 99"):
        restoring._check_layout(later)
