"""Ingests through a real queue and a real Celery worker."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retriever import Library, SourceDocument
from retriever.store import Store
from retriever.testing import HashEmbedder
from workers import keys
from workers.ingestion import JobRecord, ingest
from workers.messages import IngestFile, IngestJob, JobProgress
from workers.passage_ids import PassageIds
from workers.queue import Queue
from workers.testing import FakeEngine
from workers.tokens import Tokens


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path / "data", HashEmbedder())
    library.create("c")
    yield library
    library.close()


def wait(queue: Queue, job_id: str) -> JobProgress:
    while (progress := queue.job("default", job_id)) is not None:
        if progress.status not in ("queued", "running"):
            return progress
    raise AssertionError("the job is gone")


def test_files_go_in_and_uploads_go_away(
    work: Any, queue: Queue, client: Any, tokens: Tokens, library: Library, tmp_path: Path
) -> None:
    uploads = tmp_path / "uploads"
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
    work(FakeEngine(tokens), library=library, uploads_dir=uploads)
    queue.enqueue_ingest(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    progress = wait(queue, "j")
    assert (progress.status, progress.done, progress.total) == ("succeeded", 4, 4)
    assert [failure.name for failure in progress.failures] == ["x.zzz"]
    assert library.collection("c").get("cats").text == "Cats purr."
    assert library.collection("c").stats().documents == 3
    assert own.exists()
    while (uploads / "j").exists():  # they go after the last report
        pass
    assert client.hget(keys.job("default", "j"), "request") is None


def test_an_unknown_collection_fails_the_job(work: Any, queue: Queue, tokens: Tokens, library: Library) -> None:
    work(FakeEngine(tokens), library=library)
    files = [IngestFile(name="n", text="t")]
    queue.enqueue_ingest(IngestJob(job_id="j", collection="none", files=files, created=0.0))
    progress = wait(queue, "j")
    assert (progress.status, progress.failures[0].name) == ("failed", "none")
    assert "none" in progress.failures[0].reason


def test_a_full_disk_fails_the_job_and_says_so(
    work: Any, queue: Queue, tokens: Tokens, library: Library, monkeypatch: pytest.MonkeyPatch
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
    queue.enqueue_ingest(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    progress = wait(queue, "j")
    assert progress.status == "failed"
    assert "the disk is full" in progress.failures[0].reason
    assert [document.id for document in library.collection("c").documents()] == ["old"]


def test_a_cancelled_job_says_so(work: Any, queue: Queue, tokens: Tokens, library: Library) -> None:
    files = [IngestFile(name=f"n{number}", text=f"text {number}") for number in range(3)]
    queue.enqueue_ingest(IngestJob(job_id="j", collection="c", files=files, created=0.0))
    assert queue.cancel_job("default", "j")
    work(FakeEngine(tokens), library=library)
    progress = wait(queue, "j")
    assert (progress.status, progress.done, progress.total) == ("cancelled", 0, 3)
    assert library.collection("c").stats().documents == 0


def test_passages_are_tokenized_at_ingest(
    work: Any, queue: Queue, client: Any, tokens: Tokens, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(FakeEngine(tokens), library=library)
    text = "\n\n".join(f"Foxes number {number} jump over the dogs and come home late." * 20 for number in range(6))
    queue.enqueue_ingest(IngestJob(job_id="j", collection="c", files=[IngestFile(name="n", text=text)], created=0.0))
    assert wait(queue, "j").status == "succeeded"
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
    job = IngestJob(job_id="j", collection="c", files=files, created=0.0)
    kept = PassageIds(client, tokens, most_passages=3)
    ingest(job, JobRecord(client, "default", "j"), library, tmp_path, lambda: False, lambda: False, kept)
    names = client.hkeys(keys.passage_ids("default"))
    assert len(names) == 3
    kept.of("default", [f"Fox number {number}." for number in range(3)])
    assert client.hkeys(keys.passage_ids("default")) == names, "they are the first three"
