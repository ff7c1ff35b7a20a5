"""One claimed ingest job, from its files to its last progress report.

Knows jobs, progress and the retriever's interface; knows no Celery and no Redis.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from retriever import (
    Collection,
    CollectionBusy,
    Library,
    RetrieverError,
    SourceDocument,
    StoreUnavailable,
    UnknownDocument,
)
from workers.broker.ingest_messages import IngestFile
from workers.broker.progress import IngestFailure, JobProgress, JobStatus
from workers.errors import RuntimeClosed
from workers.ingests.ledger import JobClaim
from workers.sessions.passage_ids import PassageIds

log = logging.getLogger(__name__)

REPORT_S = 0.2
"""Shortest time between two progress reports."""


def ingest(claim: JobClaim, library: Library, passage_ids: PassageIds, closing: Callable[[], bool]) -> None:
    """Ingest a job's files and report progress.

    Unreadable files become failures with name and reason; the rest go in, and their passages' token ids are stored for
    the first question that retrieves them. A resumed job does not store documents again, so a document deleted since
    stays deleted. Nothing goes in once the job is cancelled or another worker has it.

    Raises:
        CollectionBusy: another process writes to the collection.
        StoreUnavailable: the database of the collections cannot be used at the moment.
        RuntimeClosed: the worker is closing; documents stored so far stay.
        QueueUnavailable: the ledger cannot be reached.
    """
    job = claim.job
    reported = 0.0
    running = JobProgress(job_id=job.job_id, status="running", total=len(job.files))
    claim.report(running)

    def progress(done: int, total: int, name: str) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_S:
            claim.report(running.model_copy(update={"done": done}))
            reported = time.monotonic()

    try:
        collection = library.collection(job.collection)
        with claim.local_files() as files:
            report = collection.ingest(
                [_source(file) for file in files],
                progress=progress,
                cancelled=lambda: closing() or claim.state() != "claimed",
                job=job.job_id,
            )
    except (CollectionBusy, StoreUnavailable):
        raise
    except RetrieverError as error:
        fail(claim, str(error))
        return
    state = claim.state()
    if report.cancelled and closing() and state == "claimed":
        raise RuntimeClosed
    if report.replaced or claim.attempts > 1:  # the first try may have replaced some
        passage_ids.forget(job.tenant)
    if state == "lost":
        log.warning("another worker has taken over ingest %s; this one stops", job.job_id)
        return
    _keep_ids(passage_ids, job.tenant, collection, (*report.added, *report.replaced))
    failures = [IngestFailure(name=failure.name, reason=failure.reason) for failure in report.failures]
    if report.cancelled and job.collection not in library.collections():  # it was deleted: nothing names its documents
        failures = []
    status: JobStatus = "failed" if failures and not report.ingested else "succeeded"
    ended = {
        "status": "cancelled" if report.cancelled else status,
        "done": report.ingested + len(failures),
        "added": len(report.added),
        "replaced": len(report.replaced),
        "unchanged": len(report.unchanged),
        "failures": failures,
        "notes": list(report.notes),
    }
    claim.end(running.model_copy(update=ended))


def fail(claim: JobClaim, reason: str) -> None:
    """End a job that cannot be done, with a reason."""
    failures = [IngestFailure(name=claim.job.collection, reason=reason)]
    total = len(claim.job.files)
    claim.end(JobProgress(job_id=claim.job.job_id, status="failed", total=total, failures=failures))


def _keep_ids(passage_ids: PassageIds, tenant: str, collection: Collection, documents: Iterable[str]) -> None:
    """Store token ids of as many passages as Redis keeps; more would only evict each other."""
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


def _source(file: IngestFile) -> SourceDocument:
    return SourceDocument(
        name=file.name,
        path=None if file.path is None else Path(file.path),
        text=file.text,
        document_id=file.document_id,
        title=file.title,
        metadata=file.metadata,
    )
