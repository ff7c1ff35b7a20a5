"""Ingests through a real queue and a real Celery worker."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from retriever import Library, SourceDocument, StoreUnavailable
from retriever.embedding.embedder import Vectors
from retriever.stores.store import Store
from tests.support.fake_workers import FakeEngine, make_worker_context
from tests.support.hash_embedder import HashEmbedder
from workers.broker import keys, wire
from workers.broker.app import INGEST_QUEUE
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress
from workers.errors import RuntimeClosed
from workers.ingests.files import JobFiles
from workers.ingests.ingestion import ingest
from workers.ingests.queue import IngestQueue
from workers.ingests.redis_ledger import RedisJobLedger
from workers.ingests.runner import MOST_ATTEMPTS
from workers.sessions.passage_ids import PassageIds
from workers.tokens.tokenizer import Tokens


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path / "data", HashEmbedder())
    library.create("c")
    yield library
    library.close()


def wait(ingests: IngestQueue, job_id: str) -> JobProgress:
    while (progress := ingests.job("default", job_id)) is not None:
        if progress.status not in ("queued", "running"):
            return progress
    raise AssertionError("the job is gone")


def test_files_go_in_and_uploads_go_away(
    work: Any, ingests: IngestQueue, client: Any, tokens: Tokens, library: Library, uploads: Path, tmp_path: Path
) -> None:
    (uploads / "j").mkdir(parents=True)
    upload = uploads / "j" / "1.md"
    upload.write_text("# Foxes\n\nFoxes jump.", encoding="utf-8")
    own = tmp_path / "own.txt"
    own.write_text("Dogs sleep.", encoding="utf-8")
    strange = uploads / "j" / "x.zzz"
    strange.write_bytes(b"\x00\x01")
    files = [
        IngestFile(name="foxes.md", path=str(upload)),
        IngestFile(name="own.txt", path=str(own)),
        IngestFile(name="x.zzz", path=str(strange)),
        IngestFile(name="note", text="Cats purr.", document_id="cats", metadata={"k": 1}),
    ]
    work(FakeEngine(tokens), library=library)
    ingests.enqueue(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    progress = wait(ingests, "j")
    assert (progress.status, progress.done, progress.total) == ("succeeded", 4, 4)
    assert [failure.name for failure in progress.failures] == ["x.zzz"]
    assert library.collection("c").get("cats").text == "Cats purr."
    assert library.collection("c").stats().documents == 3
    assert own.exists()
    files = JobFiles(uploads)
    while files.ended("j") is None:  # known on disk as well
        pass
    client.delete(*client.scan_iter("rag:ingest:*"))
    os.utime(uploads / "j" / "ended.json", (0, 0))
    RedisJobLedger(client, files).recover()
    assert not (uploads / "j").exists(), "and what was uploaded goes once Redis has surely written the end"


def test_an_unknown_collection_fails_the_job(work: Any, ingests: IngestQueue, tokens: Tokens, library: Library) -> None:
    work(FakeEngine(tokens), library=library)
    files = [IngestFile(name="n", text="t")]
    ingests.enqueue(IngestJob(job_id="j", collection="none", files=files, created=0.0))
    progress = wait(ingests, "j")
    assert (progress.status, progress.failures[0].name) == ("failed", "none")
    assert "none" in progress.failures[0].reason


def test_a_full_disk_fails_the_job_and_says_so(
    work: Any, ingests: IngestQueue, tokens: Tokens, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.collection("c").ingest([SourceDocument(document_id="old", text="Old foxes.")])
    library.close()
    connect = Store._connect

    def connect_full(self: Store) -> sqlite3.Connection:
        connection = connect(self)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size where it is larger
        return connection

    monkeypatch.setattr(Store, "_connect", connect_full)
    work(FakeEngine(tokens), library=library)
    files = [IngestFile(name="n", text="New dogs. " * 20_000)]
    ingests.enqueue(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    progress = wait(ingests, "j")
    assert progress.status == "failed"
    assert "the disk is full" in progress.failures[0].reason
    assert [document.id for document in library.collection("c").documents()] == ["old"]


def test_a_job_waits_while_the_database_of_the_collections_is_away(
    work: Any, ingests: IngestQueue, tokens: Tokens, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed, although nothing was wrong with its files."""
    library.close()
    connect, refused = Store._connect, []

    def connect_later(self: Store) -> sqlite3.Connection:
        if len(refused) < 2:
            refused.append(self.name)
            raise StoreUnavailable("the database cannot be reached")
        return connect(self)

    monkeypatch.setattr(Store, "_connect", connect_later)
    work(FakeEngine(tokens), library=library)
    files = [IngestFile(name="n", text="New dogs.")]
    ingests.enqueue(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    assert wait(ingests, "j").status == "succeeded"
    assert len(refused) == 2


def test_a_cancelled_job_says_so(work: Any, ingests: IngestQueue, tokens: Tokens, library: Library) -> None:
    files = [IngestFile(name=f"n{number}", text=f"text {number}") for number in range(3)]
    ingests.enqueue(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    assert ingests.cancel("default", "j")
    assert wait(ingests, "j").status == "cancelled", "at once, without a worker"
    work(FakeEngine(tokens), library=library)
    progress = wait(ingests, "j")
    assert (progress.status, progress.done, progress.total) == ("cancelled", 0, 3)
    assert library.collection("c").stats().documents == 0


def test_passages_are_tokenized_at_ingest(
    work: Any, ingests: IngestQueue, client: Any, tokens: Tokens, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(FakeEngine(tokens), library=library)
    text = "\n\n".join(f"Foxes number {number} jump over the dogs and come home late." * 20 for number in range(6))
    ingests.enqueue(IngestJob(job_id="j", collection="c", files=[IngestFile(name="n", text=text)], created=0.0))
    assert wait(ingests, "j").status == "succeeded"
    texts = [passage.text for passage in library.collection("c").search("foxes", top_k=100, mode="lexical")]
    assert len(texts) > 1
    wanted = {text: tokens.encode_content(text).ids for text in texts}
    another = PassageIds(client, tokens)
    monkeypatch.setattr(tokens, "encode_content", lambda text: pytest.fail("it was tokenized again"))
    assert another.of("default", texts) == wanted


def test_no_more_passages_are_tokenized_than_are_kept(
    client: Any, tokens: Tokens, library: Library, tmp_path: Path
) -> None:
    files = [IngestFile(name=f"n{number}", text=f"Fox number {number}.") for number in range(5)]
    ledger = RedisJobLedger(client, JobFiles(tmp_path))
    ledger.add(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    claim = ledger.take("w")
    assert claim is not None
    kept = PassageIds(client, tokens, most_passages=3)
    ingest(claim, library, kept, lambda: False)
    names = client.hkeys(keys.passage_ids("default"))
    assert len(names) == 3
    kept.of("default", [f"Fox number {number}." for number in range(3)])
    assert client.hkeys(keys.passage_ids("default")) == names, "they are the first three"


class HeldEmbedder(HashEmbedder):
    """Embeds nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.open = threading.Event(), threading.Event()

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        self.reached.set()
        assert self.open.wait(60)
        return super().embed_documents(texts)


def text_job(job_id: str, text: str, document: str = "d", tenant: str = "default", at: float = 0.0) -> IngestJob:
    files = [IngestFile(name=document, text=text, document_id=document)]
    return IngestJob(job_id=job_id, tenant=tenant, collection="c", files=files, created=at)


def test_jobs_behind_a_long_one_wait_and_are_done_in_order(
    work: Any, ingests: IngestQueue, tokens: Tokens, tmp_path: Path
) -> None:
    """They were given up after four tries, a second apart: two of four that were sent at once never ended."""
    embedder = HeldEmbedder()
    library = Library(tmp_path / "data", embedder)
    library.create("c")
    work(FakeEngine(tokens), library=library)
    for number in range(6):
        ingests.enqueue(text_job(f"j{number}", f"Fox {number}.", at=float(number)))
    assert embedder.reached.wait(30)
    others = {f"j{number}": ingests.job("default", f"j{number}") for number in range(1, 6)}
    assert {job.status for job in others.values() if job is not None} == {"queued"}
    counts = ingests.counts()
    assert (counts.jobs, counts.oldest) == ({"queued": 5, "running": 1}, {"queued": 1.0, "running": 0.0})
    embedder.open.set()
    assert [wait(ingests, f"j{number}").status for number in range(6)] == ["succeeded"] * 6
    assert library.collection("c").get("d").text == "Fox 5.", "the last one sent is the one that stays"
    assert ingests.counts().ended["succeeded"] == 6
    library.close()


def test_a_running_job_stops_between_two_batches(
    work: Any, ingests: IngestQueue, tokens: Tokens, tmp_path: Path
) -> None:
    embedder = HeldEmbedder()
    library = Library(tmp_path / "data", embedder)
    library.create("c")
    work(FakeEngine(tokens), library=library)
    ingests.enqueue(text_job("j", "Foxes jump."))
    assert embedder.reached.wait(30)
    assert ingests.cancel("default", "j")
    embedder.open.set()
    assert wait(ingests, "j").status == "cancelled"
    assert library.collection("c").stats().documents == 0
    assert not ingests.cancel("default", "j")
    library.close()


def test_a_job_without_a_message_is_done(
    work: Any, client: Any, ingests: IngestQueue, tokens: Tokens, library: Library
) -> None:
    ingests.enqueue(text_job("j", "Foxes jump."))
    client.delete(INGEST_QUEUE)
    work(FakeEngine(tokens), library=library)
    assert wait(ingests, "j").status == "succeeded"


def test_a_redis_that_forgot_everything_loses_no_job(
    work: Any, client: Any, ingests: IngestQueue, tokens: Tokens, library: Library, uploads: Path
) -> None:
    (uploads / "j0").mkdir(parents=True)
    (uploads / "j0" / "0").write_text("Dogs sleep.")
    upload = IngestFile(name="dogs.md", path=str(uploads / "j0" / "0"))
    ingests.enqueue(IngestJob(job_id="j0", collection="c", files=[upload], created=0.0))
    ingests.enqueue(text_job("j1", "Foxes jump."))
    client.flushall()
    assert ingests.job("default", "j0") is None
    work(FakeEngine(tokens), library=library)
    for job_id in ("j0", "j1"):
        while ingests.job("default", job_id) is None:
            pass
        assert wait(ingests, job_id).status == "succeeded"
    assert library.collection("c").stats().documents == 2


def test_a_job_of_the_version_before_is_found(
    work: Any, client: Any, ingests: IngestQueue, tokens: Tokens, library: Library, uploads: Path
) -> None:
    """Such a job was `queued` for ever: its message was gone, and its record says who it was for."""
    (uploads / "old").mkdir(parents=True)
    (uploads / "old" / "0").write_text("Dogs sleep.")
    os.utime(uploads / "old", (0, 0))
    file = IngestFile(name="dogs.md", path="/elsewhere/uploads/old/0")  # the data folder was moved since
    job = IngestJob(job_id="old", tenant="team", collection="c", files=[file], created=1.0)
    progress = JobProgress(job_id="old", status="queued", total=1)
    record = {"request": wire.dumps(job), "progress": wire.dumps(progress), "collection": "c", "created": 1.0}
    client.hset(keys.job("team", "old"), mapping=record)
    client.zadd(keys.jobs("team"), {"old": 1.0})
    library.of("team").create("c")
    work(FakeEngine(tokens), library=library)
    while (found := ingests.job("team", "old")) is None or found.status in ("queued", "running"):
        pass
    assert (found.status, found.failures) == ("succeeded", [])
    assert library.of("team").collection("c").stats().documents == 1


def test_what_was_deleted_since_stays_deleted_when_a_job_goes_on(
    client: Any, tokens: Tokens, library: Library, tmp_path: Path
) -> None:
    """A worker dies behind its first store; the document is deleted; the job is run again."""
    files = [IngestFile(name=f"n{number}", text=f"Fox {number}.", document_id=f"n{number}") for number in range(3)]
    ledger = RedisJobLedger(client, JobFiles(tmp_path))
    ledger.add(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    kept = PassageIds(client, tokens)
    first = ledger.take("w")
    assert first is not None
    seen = iter([False, False, False, False, True])  # stored once, then the worker is told to stop
    with pytest.raises(RuntimeClosed):
        ingest(first, library, kept, lambda: next(seen, True))
    collection = library.collection("c")
    stored = [document.id for document in collection.documents()]
    assert stored == [], "the run was not yet stored"
    first.put_back()
    collection.ingest([SourceDocument(name="n0", text="Fox 0.", document_id="n0")], job="j")  # as a dead worker left it
    collection.delete("n0")
    again = ledger.take("w")
    assert again is not None
    ingest(again, library, kept, lambda: False)
    assert [document.id for document in collection.documents()] == ["n1", "n2"]
    ended = JobProgress(job_id="j", status="succeeded", done=3, total=3, added=2, unchanged=1)
    assert ledger.job("default", "j") == ended


def test_nothing_goes_in_for_a_job_that_another_worker_has(
    client: Any, tokens: Tokens, library: Library, tmp_path: Path
) -> None:
    ledger = RedisJobLedger(client, JobFiles(tmp_path))
    ledger.add(text_job("j1", "An older text.", at=1.0))
    slow = ledger.take("slow")
    assert slow is not None
    assert ledger.reclaim("quick", []) == 1  # nobody hears of `slow`
    ledger.add(text_job("j2", "A newer text.", at=2.0))
    kept = PassageIds(client, tokens)
    for job_id in ("j1", "j2"):
        claim = ledger.take("quick")
        assert claim is not None
        assert claim.job.job_id == job_id
        ingest(claim, library, kept, lambda: False)
    ingest(slow, library, kept, lambda: False)  # it wakes up
    assert library.collection("c").get("d").text == "A newer text."
    assert ledger.job("default", "j1") == JobProgress(job_id="j1", status="succeeded", done=1, total=1, added=1)


def test_a_job_that_ends_every_worker_is_given_up(
    work: Any, client: Any, ingests: IngestQueue, tokens: Tokens, library: Library, uploads: Path
) -> None:
    ledger = RedisJobLedger(client, JobFiles(uploads))
    ledger.add(text_job("j", "Foxes jump."))
    for number in range(MOST_ATTEMPTS):
        assert ledger.take(f"dead-{number}") is not None
        assert ledger.reclaim("me", []) == 1
    work(FakeEngine(tokens), library=library)
    progress = wait(ingests, "j")
    assert progress.status == "failed"
    assert "workers ended" in progress.failures[0].reason


def test_a_job_is_done_though_no_message_is_read(
    client: Any, ingests: IngestQueue, tokens: Tokens, library: Library, uploads: Path
) -> None:
    """Celery may stop reading after Redis was away: the message lies in the queue, and the heartbeat goes on."""
    place = make_worker_context(redis_of(client), tokens, FakeEngine(tokens), library, uploads)
    ingests.enqueue(text_job("j", "Foxes jump."))
    assert client.llen(INGEST_QUEUE) == 1, "nobody reads it"
    client.zadd(keys.WORKERS, {place.name: client.time()[0] + 3600})
    while (job := ingests.job("default", "j")) is not None and job.status in ("queued", "running"):
        place.ingests.recover(ingests)
    assert job is not None
    assert job.status == "succeeded"
    place.close()
    place.client.close()


def redis_of(client: Any) -> str:
    return f"unix://{client.connection_pool.connection_kwargs['path']}"


def test_the_ingests_of_a_deleted_collection_end(ingests: IngestQueue) -> None:
    """They would fill another collection of its name."""
    ingests.enqueue(text_job("j1", "Foxes jump.", at=time.time()))
    ingests.enqueue(text_job("j2", "Dogs sleep.", at=time.time()).model_copy(update={"collection": "other"}))
    ingests.cancel_all("default", "c")
    statuses = [progress.status for name in ("j1", "j2") if (progress := ingests.job("default", name)) is not None]
    assert statuses == ["cancelled", "queued"]


def test_a_job_that_runs_fills_no_other_collection_of_the_name(
    client: Any, ingests: IngestQueue, tokens: Tokens, uploads: Path, tmp_path: Path
) -> None:
    class Embedder(HashEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            ingests.cancel_all("default", "c")  # as the API does it
            library.delete("c")
            library.create("c")
            return super().embed_documents(texts)

    library = Library(tmp_path / "data", Embedder())
    library.create("c")
    ingests.enqueue(text_job("j", "Foxes jump.", at=time.time()))
    claim = RedisJobLedger(client, JobFiles(uploads)).take("w")
    assert claim is not None
    ingest(claim, library, PassageIds(client, tokens), lambda: False)
    progress = ingests.job("default", "j")
    assert progress is not None
    assert progress.status == "cancelled"
    assert not library.collection("c").documents()
