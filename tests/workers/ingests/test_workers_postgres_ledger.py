"""What the ledger in PostgreSQL adds: uploads in the database, workers that race, and a database that is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retriever import Library
from tests.support.fake_workers import FakeEngine
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.ledgers import seen_by
from tests.support.storage.postgres import PostgresServer
from workers.broker.app import make_app
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress
from workers.errors import DatabaseFull, DatabaseUnavailable, QueueUnavailable
from workers.ingests.database import EVERYONE, SCHEMA
from workers.ingests.ledger import JobClaim
from workers.ingests.ledger_sql import FENCED
from workers.ingests.open_ledger import open_ledger
from workers.ingests.postgres_ledger import PostgresJobLedger
from workers.ingests.queue import IngestQueue
from workers.ingests.upload_pieces import PIECE_BYTES
from workers.tokens.tokenizer import Tokens


@pytest.fixture
def ledger(postgres_url: str, tmp_path: Path) -> Iterator[PostgresJobLedger]:
    """As the API opens it."""
    ledger = PostgresJobLedger(postgres_url, tmp_path / "api")
    yield ledger
    ledger.close()


@pytest.fixture
def elsewhere(postgres_url: str, tmp_path: Path) -> Iterator[PostgresJobLedger]:
    """As a worker on another machine opens it."""
    ledger = PostgresJobLedger(postgres_url, tmp_path / "worker")
    yield ledger
    ledger.close()


def uploaded(folder: Path, job_id: str, *contents: bytes, collection: str = "a") -> IngestJob:
    """A job with uploads in its folder."""
    (folder / job_id).mkdir(parents=True)
    files = [IngestFile(name="said.md", text="As JSON: \x00 \ud800.")]
    for number, content in enumerate(contents):
        path = folder / job_id / str(number)
        path.write_bytes(content)
        files.append(IngestFile(name=f"file {number}.md", path=str(path), metadata={"number": number}))
    return IngestJob(job_id=job_id, tenant="one", collection=collection, files=files, created=time.time())


def taken(ledger: PostgresJobLedger, worker: str = "w") -> JobClaim:
    claim = ledger.take(worker)
    assert claim is not None
    return claim


def pieces(url: str) -> int:
    with seen_by(url) as connection:
        row = connection.execute("SELECT count(*) FROM ingest_pieces").fetchone()
    assert row is not None
    return int(row[0])


def test_uploads_reach_a_worker_that_shares_no_folder(
    ledger: PostgresJobLedger, elsewhere: PostgresJobLedger, postgres_url: str, tmp_path: Path
) -> None:
    contents = [bytes(range(256)) * 12000, b"", b"x" * (2 * PIECE_BYTES)]
    job = uploaded(tmp_path / "api", "j", *contents)
    assert ledger.add(job)
    assert not list((tmp_path / "api").iterdir()), "what was accepted is in the database alone"
    assert pieces(postgres_url) == 3 + 0 + 2
    claim = taken(elsewhere)
    with claim.local_files() as files:
        assert [file.name for file in files] == [file.name for file in job.files]
        assert files[0].text == job.files[0].text
        assert [Path(file.path or "").read_bytes() for file in files[1:]] == contents
        assert Path(files[1].path or "").is_relative_to(tmp_path / "worker")
    assert not list((tmp_path / "worker").iterdir())
    assert claim.end(JobProgress(job_id="j", status="succeeded", done=4, total=4))
    assert pieces(postgres_url) == 0
    with seen_by(postgres_url) as connection:
        assert connection.execute("SELECT request FROM ingest_jobs").fetchall() == [(None,)]


def test_a_cancelled_job_leaves_no_upload(ledger: PostgresJobLedger, postgres_url: str, tmp_path: Path) -> None:
    ledger.add(uploaded(tmp_path / "api", "j", b"text"))
    assert ledger.cancel("one", "j")
    assert pieces(postgres_url) == 0
    assert ledger.counts().ended["cancelled"] == 1


def test_an_upload_that_cannot_be_read_leaves_no_job(ledger: PostgresJobLedger, tmp_path: Path) -> None:
    job = uploaded(tmp_path / "api", "j", b"text", b"more")
    Path(job.files[2].path or "").unlink()
    with pytest.raises(FileNotFoundError):
        ledger.add(job)
    assert ledger.job("one", "j") is None


def test_no_tenant_sees_rows_of_another(
    ledger: PostgresJobLedger, elsewhere: PostgresJobLedger, postgres_url: str, tmp_path: Path
) -> None:
    """Not even by a query that forgets to ask for its own."""
    for tenant in ("one", "two"):
        job = uploaded(tmp_path / "api", f"of-{tenant}", b"text", collection=tenant)
        ledger.add(job.model_copy(update={"tenant": tenant}))
        job = uploaded(tmp_path / "api", f"waits-{tenant}", b"text", collection=tenant)
        ledger.add(job.model_copy(update={"tenant": tenant}))
    claims = [taken(elsewhere), taken(elsewhere)]
    assert {claim.job.tenant for claim in claims} == {"one", "two"}, "a worker takes jobs of all"
    with psycopg.connect(postgres_url) as connection:
        for table in FENCED:
            query = f"SELECT tenant FROM {SCHEMA}.{table}"
            seen = {}
            for tenant in ("", "nobody", "one", "two", EVERYONE):
                connection.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
                seen[tenant] = {row[0] for row in connection.execute(query.encode())}
            assert seen == {"": set(), "nobody": set(), "one": {"one"}, "two": {"two"}, EVERYONE: {"one", "two"}}, table
            connection.execute("SELECT set_config('app.tenant', 'two', true)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(f"UPDATE {SCHEMA}.{table} SET tenant = 'one'".encode())
    with psycopg.connect(postgres_url) as connection:  # one that never heard of tenants
        for table in FENCED:
            assert connection.execute(f"SELECT count(*) FROM {SCHEMA}.{table}".encode()).fetchone() == (0,)
    for claim in claims:
        with claim.local_files() as files:
            assert Path(files[1].path or "").read_bytes() == b"text"
        assert claim.end(JobProgress(job_id=claim.job.job_id, status="succeeded"))
    assert not ledger.cancel("two", "waits-one")
    assert ledger.cancel("one", "waits-one")
    assert pieces(postgres_url) == 1


def test_every_table_with_a_tenant_is_fenced(ledger: PostgresJobLedger, postgres_url: str) -> None:
    ledger.available()
    with seen_by(postgres_url) as connection:
        columns = "SELECT table_name FROM information_schema.columns WHERE table_schema = %s AND column_name = 'tenant'"
        assert {row[0] for row in connection.execute(columns, (SCHEMA,))} == set(FENCED)


def test_a_role_that_may_create_no_tables_is_told_so(postgres: PostgresServer, tmp_path: Path) -> None:
    with postgres.database(vector=False) as url:
        name = url.split("/")[3].partition("?")[0]
        postgres.execute("DO $$ BEGIN CREATE ROLE poor LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
        ledger = PostgresJobLedger(postgres.url(name, "poor"), tmp_path)
        with pytest.raises(DatabaseUnavailable, match="GRANT CREATE"):
            ledger.available()
        postgres.execute(f"GRANT CREATE ON DATABASE {name} TO poor")
        assert not ledger.available()
        ledger.close()


def test_tables_of_another_version_are_named(ledger: PostgresJobLedger, postgres_url: str, tmp_path: Path) -> None:
    ledger.available()
    with seen_by(postgres_url) as connection:
        connection.execute("UPDATE layout SET version = 99")
    again = PostgresJobLedger(postgres_url, tmp_path)
    with pytest.raises(DatabaseUnavailable, match="layout 99, this one reads 1"):
        again.available()
    again.close()


def test_workers_that_take_at_the_same_time(ledger: PostgresJobLedger, postgres_url: str, tmp_path: Path) -> None:
    """Each job is taken once, those of a collection one after the other and in order."""
    for number in range(48):
        ledger.add(uploaded(tmp_path / "api", f"j{number:02}", collection=f"c{number % 3}"))
    running: set[str] = set()
    ended: list[str] = []
    faults: list[str] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        own = PostgresJobLedger(postgres_url, tmp_path / name)
        while len(ended) < 48 and not faults:
            claim = own.take(name)
            if claim is None:
                continue
            with lock:
                if claim.job.collection in running:
                    faults.append(claim.job.job_id)
                running.add(claim.job.collection)
            with lock:
                ended.append(claim.job.job_id)
                running.discard(claim.job.collection)
            if not claim.end(JobProgress(job_id=claim.job.job_id, status="succeeded")):
                faults.append(claim.job.job_id)
        own.close()

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults
    assert len(ended) == len(set(ended)) == 48
    for collection in range(3):
        own = [job for job in ended if int(job[1:]) % 3 == collection]
        assert own == sorted(own)
    assert ledger.counts().ended["succeeded"] == 48


def test_a_killed_database_loses_no_job(tmp_path: Path) -> None:
    with PostgresServer() as server, server.database(vector=False) as url:
        ledger = PostgresJobLedger(url, tmp_path / "api")
        ledger.add(uploaded(tmp_path / "api", "running", b"text"))
        ledger.add(uploaded(tmp_path / "api", "waiting", b"text"))
        claim = taken(ledger)
        server.kill()
        job = uploaded(tmp_path / "api", "later", b"text")
        with pytest.raises(DatabaseUnavailable, match="RAG_STORE_URL"):
            ledger.add(job)
        with pytest.raises(QueueUnavailable):
            claim.state()
        server.start()
        assert claim.state() == "claimed"
        assert ledger.add(job), "a connection that the kill broke is replaced"
        with claim.local_files() as files:
            assert Path(files[1].path or "").read_bytes() == b"text"
        assert claim.end(JobProgress(job_id="running", status="succeeded"))
        assert [taken(ledger).job.job_id] == ["waiting"]
        ledger.close()


def test_after_an_outage_of_its_own_a_worker_takes_over_nothing_at_first(
    ledger: PostgresJobLedger, elsewhere: PostgresJobLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats stop for all workers if Redis is away."""
    ledger.add(uploaded(tmp_path / "api", "j"))
    claim = taken(elsewhere, "other")
    with elsewhere._database.transaction(EVERYONE) as connection:
        connection.execute("UPDATE ingest_workers SET heard = now() - interval '60 seconds'")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert ledger.reclaim("mine", []) == 0
    assert claim.state() == "claimed"
    monkeypatch.setattr(time, "monotonic", lambda: now + 64)
    assert ledger.reclaim("mine", []) == 0
    monkeypatch.setattr(time, "monotonic", lambda: now + 66)
    assert ledger.reclaim("mine", []) == 1, "the other one is still silent"
    assert claim.state() == "lost"


def test_a_full_disk_is_said_so(ledger: PostgresJobLedger) -> None:
    with pytest.raises(DatabaseFull, match="free space"), ledger._database.transaction(EVERYONE):
        raise psycopg.errors.DiskFull("could not extend file")


def test_a_worker_with_another_folder_ingests_what_was_uploaded(
    work: Callable[..., Any], client: Any, redis_url: str, postgres_url: str, tokens: Tokens, tmp_path: Path
) -> None:
    library = Library(tmp_path / "library", HashEmbedder())
    library.create("a")
    place = work(FakeEngine(tokens), library=library, uploads_dir=tmp_path / "worker", store_url=postgres_url)
    ledger = open_ledger(client, tmp_path / "api", postgres_url)
    app = make_app(redis_url)
    queue = IngestQueue(app, client, ledger)
    job = uploaded(tmp_path / "api", "j", b"# Foxes\n\nThe quick brown fox.").model_copy(update={"tenant": "default"})
    queue.enqueue(job.model_copy(update={"files": job.files[1:]}))
    deadline = time.monotonic() + 60
    while (progress := queue.job("default", "j")) is None or progress.status in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert progress.status == "succeeded", progress
    assert [document.name for document in library.collection("a").documents()] == ["file 0.md"]
    assert pieces(postgres_url) == 0
    assert place.ledger.counts().ended["succeeded"] == 1
    ledger.close()
    app.close()
    library.close()
