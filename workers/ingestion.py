"""One ingest job: from its record to its last progress report.

Knows jobs, progress and uploaded files; knows no Celery, and of the retriever only what it hands it and gets back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from retriever import Collection, CollectionBusy, Library, RetrieverError, SourceDocument, UnknownDocument
from workers import keys, wire
from workers.app import RedisClient
from workers.errors import RuntimeClosed, unavailable
from workers.messages import IngestFailure, IngestFile, IngestJob, JobProgress, JobStatus
from workers.passage_ids import PassageIds, forget_passages

log = logging.getLogger(__name__)

REPORT_S = 0.2
"""Least seconds between two progress reports."""


class JobRecord:
    """The record of one ingest job in Redis. Every method raises QueueUnavailable while Redis is away."""

    def __init__(self, client: RedisClient, tenant: str, job_id: str) -> None:
        self.tenant = tenant
        self._redis = client
        self._key = keys.job(tenant, job_id)
        self.job_id = job_id

    def load(self) -> IngestJob | None:
        """The job; None if it has ended or is not kept."""
        with unavailable():
            text = self._redis.hget(self._key, "request")
        return None if text is None else wire.loads(IngestJob, text)

    def report(self, progress: JobProgress) -> None:
        """Replace the progress. When it says that the job has ended, the request is dropped."""
        with unavailable(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(self._key, "progress", wire.dumps(progress))
            if progress.status not in ("queued", "running"):
                pipe.hdel(self._key, "request")
            pipe.execute()

    def forget_passages(self) -> None:
        """Some of the tenant's documents are gone: forget the ids of its passages."""
        forget_passages(self._redis, self.tenant)


def ingest(
    job: IngestJob,
    record: JobRecord,
    library: Library,
    uploads_dir: Path,
    cancelled: Callable[[], bool],
    closing: Callable[[], bool],
    passage_ids: PassageIds,
) -> None:
    """Ingest a job's files, report progress, and delete those files that lie in `uploads_dir`.

    Files that cannot be read are failures by name and reason; the rest go in, and their passages' token ids are kept
    for the first question that finds them.

    Raises:
        CollectionBusy: another ingest runs in the collection; the job stays as it was.
        RuntimeClosed: the worker is closing; the job stays as it was, and finds what went in already unchanged.
        QueueUnavailable: Redis is away.
    """
    reported = 0.0
    started = JobProgress(job_id=job.job_id, status="running", total=len(job.files))
    record.report(started)

    def progress(done: int, total: int, name: str) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_S:
            record.report(started.model_copy(update={"done": done}))
            reported = time.monotonic()

    try:
        collection = library.collection(job.collection)
        report = collection.ingest(
            [_source(file) for file in job.files],
            progress=progress,
            cancelled=lambda: cancelled() or closing(),
        )
    except CollectionBusy:
        raise
    except RetrieverError as error:
        fail(job, record, uploads_dir, str(error))
        return
    if report.cancelled and closing() and not cancelled():
        raise RuntimeClosed
    if report.replaced:
        record.forget_passages()
    _keep_ids(passage_ids, job.tenant, collection, (*report.added, *report.replaced))
    failures = [IngestFailure(name=failure.name, reason=failure.reason) for failure in report.failures]
    status: JobStatus = "failed" if failures and not report.ingested else "succeeded"
    ended = {
        "status": "cancelled" if report.cancelled else status,
        "done": report.ingested + len(failures),
        "failures": failures,
    }
    _end(record, started.model_copy(update=ended), job, uploads_dir)


def _keep_ids(passage_ids: PassageIds, tenant: str, collection: Collection, documents: Iterable[str]) -> None:
    """Of as many passages as are kept: more would only drive out each other."""
    room = passage_ids.most_passages
    for document_id in documents:
        try:
            texts = [chunk.text for chunk in collection.chunks(document_id)][:room]
        except UnknownDocument:  # deleted meanwhile
            continue
        passage_ids.of(tenant, texts)
        room -= len(texts)
        if not room:
            return


def fail(job: IngestJob, record: JobRecord, uploads_dir: Path, reason: str) -> None:
    """End a job that cannot be done, saying why."""
    failures = [IngestFailure(name=job.collection, reason=reason)]
    ended = JobProgress(job_id=job.job_id, status="failed", total=len(job.files), failures=failures)
    _end(record, ended, job, uploads_dir)


def _end(record: JobRecord, progress: JobProgress, job: IngestJob, uploads_dir: Path) -> None:
    record.report(progress)
    for file in job.files:
        _delete_upload(file, uploads_dir)


def _source(file: IngestFile) -> SourceDocument:
    return SourceDocument(
        name=file.name,
        path=None if file.path is None else Path(file.path),
        text=file.text,
        document_id=file.document_id,
        title=file.title,
        metadata=file.metadata,
    )


def _delete_upload(file: IngestFile, uploads_dir: Path) -> None:
    """Delete an upload, and its folder once empty. Files elsewhere belong to someone else and stay."""
    if file.path is None:
        return
    path, root = Path(file.path).resolve(), uploads_dir.resolve()
    if root not in path.parents:
        return
    try:
        path.unlink(missing_ok=True)
        if path.parent != root and not any(path.parent.iterdir()):
            path.parent.rmdir()
    except OSError as error:
        log.warning("the upload %s cannot be deleted: %s", path, error)
