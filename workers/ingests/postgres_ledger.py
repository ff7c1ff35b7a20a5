"""The ledger of ingest jobs in PostgreSQL: jobs, uploads, order, claims and progress in one database.

So API and workers share no folder, and any worker on any machine can run any job. One transaction accepts a job, with
its uploads, and one ends it and deletes them. Workers are alive as long as they call `reclaim`. Redis has no part in
this and may lose everything.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from workers.broker import wire
from workers.broker.app import LAPSE_S
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import IngestFailure, JobProgress, JobStatus, ListedJob
from workers.ingests import ledger_sql, upload_pieces
from workers.ingests.database import EVERYONE, Database
from workers.ingests.erasing import without
from workers.ingests.ledger import JOB_TTL_S, UPLOAD_MISSING, ClaimState, JobClaim, JobCounts

FORGOTTEN_S = 3600
"""Seconds of silence after which a worker's name is removed."""

log = logging.getLogger(__name__)


class PostgresJobLedger:
    """`JobLedger` over one PostgreSQL.

    Args:
        url: `postgresql://…`.
        folder: on this machine: the API receives uploads in it, in a folder named by the job's id, and a worker has the
            files of its job there while it runs.
        lapse_s: seconds of silence after which other workers take over a worker's jobs.
    """

    def __init__(self, url: str, folder: Path, lapse_s: int = LAPSE_S) -> None:
        self._database = Database(url, ledger_sql.TABLES, ledger_sql.FENCED)
        self._folder = folder
        self._lapse_s = lapse_s
        self._heard = time.monotonic()
        self._quiet_until = 0.0

    def add(self, job: IngestJob) -> bool:
        """As JobLedger.add. Raises OSError if an upload cannot be read, DatabaseFull if PostgreSQL's disk is full."""
        files = [_stored(number, file) for number, file in enumerate(job.files)]
        values = {
            "id": job.job_id,
            "tenant": job.tenant,
            "collection": job.collection,
            "created": job.created,
            "request": wire.dumps(job.model_copy(update={"files": files})),
            "progress": wire.dumps(JobProgress(job_id=job.job_id, status="queued", total=len(job.files))),
        }
        with self._database.transaction(job.tenant) as connection:
            added = connection.execute(ledger_sql.ADD, values).fetchone()
            if added is not None:
                upload_pieces.store(connection, added[0], job.files)
        shutil.rmtree(self._folder / job.job_id, ignore_errors=True)
        return added is not None

    def take(self, worker: str) -> JobClaim | None:
        damaged: list[int] = []
        while True:
            try:
                with self._database.transaction(EVERYONE) as connection:
                    connection.execute(ledger_sql.HEARD, {"worker": worker})
                    taken = connection.execute(ledger_sql.TAKE, {"worker": worker, "except": damaged}).fetchone()
                    if taken is None:
                        return None
                    request = connection.execute(ledger_sql.REQUEST, {"number": taken[0]}).fetchone()
            except psycopg.errors.UniqueViolation:  # at the same moment, another worker took a job of the collection
                continue
            claim = self._claim(worker, taken, None if request is None else request[0])
            if claim is not None:
                return claim
            damaged.append(taken[0])

    def _claim(self, worker: str, taken: tuple[Any, ...], request: str | None) -> JobClaim | None:
        """The claim of a job that was taken; None if its request is missing or damaged: then the job has failed."""
        number, job_id, tenant, collection, created, attempts = taken
        job = None
        try:
            job = None if request is None else wire.loads(IngestJob, request)
        except ValueError:
            log.exception("the ingest job %s is damaged", job_id)
        bare = IngestJob(job_id=job_id, tenant=tenant, collection=collection, files=[], created=created)
        claim = PostgresJobClaim(self._database, self._folder, worker, number, job or bare, attempts)
        if job is None:
            failures = [IngestFailure(name=job_id, reason=UPLOAD_MISSING)]
            claim.end(JobProgress(job_id=job_id, status="failed", failures=failures))
            return None
        return claim

    def available(self) -> bool:
        return bool(self._rows(EVERYONE, ledger_sql.AVAILABLE)[0][0])

    def cancel(self, tenant: str, job_id: str) -> bool:
        values = {"tenant": tenant, "id": job_id}
        with self._database.transaction(tenant) as connection:
            cancelled = connection.execute(ledger_sql.CANCEL_WAITING, values).fetchone()
            if cancelled is None:
                return connection.execute(ledger_sql.CANCEL_RUNNING, values).rowcount > 0
            connection.execute(ledger_sql.DROP_PIECES, {"number": cancelled[0]})
            connection.execute(ledger_sql.COUNT, {"status": "cancelled"})
        return True

    def job(self, tenant: str, job_id: str) -> JobProgress | None:
        rows = self._rows(tenant, ledger_sql.JOB, id=job_id)
        return _progress(*rows[0][:2]) if rows else None

    def collection(self, tenant: str, job_id: str) -> str | None:
        rows = self._rows(tenant, ledger_sql.JOB, id=job_id)
        return str(rows[0][2]) if rows else None

    def jobs(self, tenant: str, limit: int) -> list[ListedJob]:
        return [
            ListedJob(**_progress(status, progress).model_dump(), collection=collection, created=created)
            for status, progress, collection, created in self._rows(tenant, ledger_sql.JOBS, limit=limit)
        ]

    def waiting(self, tenant: str) -> int:
        return int(self._rows(tenant, ledger_sql.WAITING)[0][0])

    def counts(self) -> JobCounts:
        with self._database.transaction(EVERYONE) as connection:
            rows = connection.execute(ledger_sql.COUNTS).fetchall()
            ended = dict(connection.execute(ledger_sql.ENDED).fetchall())
        jobs: dict[JobStatus, int] = {"queued": 0, "running": 0}
        return JobCounts(
            jobs | {status: count for status, count, _ in rows},
            {status: created for status, _, created in rows},
            {status: int(ended.get(status, 0)) for status in ("succeeded", "failed", "cancelled")},
        )

    def erase(self, tenant: str, collection: str, names: Collection[str] | None) -> None:
        values = {"tenant": tenant, "collection": collection}
        with self._database.transaction(tenant) as connection:
            for number, text in connection.execute(ledger_sql.ENDED_WITH_NAMES, values).fetchall():
                progress = wire.loads(JobProgress, text)
                left = without(progress, names)
                if left != progress:
                    changed = {"number": number, "progress": wire.dumps(left)}
                    connection.execute(ledger_sql.REPLACE_PROGRESS, changed)

    def rename(self, tenant: str, collection: str, new: str) -> None:
        with self._database.transaction(tenant) as connection:
            connection.execute(ledger_sql.RENAME, {"tenant": tenant, "collection": collection, "new": new})

    def reclaim(self, worker: str, running: Collection[str], not_put_back: Collection[str] = ()) -> int:
        """As JobLedger.reclaim; it is also this worker's heartbeat for the others.

        After an outage that this worker had too, it reclaims nothing until the others could be heard again.
        """
        now = time.monotonic()
        if now - self._heard > self._lapse_s:
            self._quiet_until = now + self._lapse_s
        values = {"worker": worker, "running": list(running), "lapse": self._lapse_s}
        with self._database.transaction(EVERYONE) as connection:
            connection.execute(ledger_sql.HEARD, {"worker": worker})
            if not_put_back:
                connection.execute(ledger_sql.NOT_PUT_BACK, {"worker": worker, "ids": list(not_put_back)})
            lapse = self._lapse_s if now >= self._quiet_until else FORGOTTEN_S
            reclaimed = connection.execute(ledger_sql.RECLAIM, {**values, "lapse": lapse}).rowcount
        self._heard = time.monotonic()
        return reclaimed

    def recover(self) -> int:
        """Nothing is ever missing. Removes what is old: jobs that ended long ago, and files of killed processes."""
        upload_pieces.tidy(self._folder)
        with self._database.transaction(EVERYONE) as connection:
            connection.execute(ledger_sql.FORGET_JOBS, {"age": JOB_TTL_S})
            connection.execute(ledger_sql.FORGET_WORKERS, {"age": FORGOTTEN_S})
        return 0

    def close(self) -> None:
        self._database.close()

    def _rows(self, tenant: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._database.transaction(tenant) as connection:
            return connection.execute(statement.encode(), {"tenant": tenant, **values}).fetchall()


@dataclass(frozen=True)
class PostgresJobClaim:
    """`JobClaim` of a `PostgresJobLedger`."""

    database: Database = field(repr=False)
    folder: Path
    worker: str
    number: int
    job: IngestJob
    attempts: int

    @contextmanager
    def local_files(self) -> Iterator[list[IngestFile]]:
        with upload_pieces.fetched(self.database, self.job.tenant, self.number, self.job.files, self.folder) as files:
            yield files

    def state(self) -> ClaimState:
        with self.database.transaction(self.job.tenant) as connection:
            held = connection.execute(ledger_sql.STATE, self._who).fetchone()
        if held is None:
            return "lost"
        return "cancelled" if held[0] else "claimed"

    def report(self, progress: JobProgress) -> bool:
        with self.database.transaction(self.job.tenant) as connection:
            values = {**self._who, "progress": wire.dumps(progress)}
            return connection.execute(ledger_sql.REPORT, values).rowcount > 0

    def end(self, progress: JobProgress) -> bool:
        with self.database.transaction(self.job.tenant) as connection:
            values = {**self._who, "progress": wire.dumps(progress), "status": progress.status}
            if not connection.execute(ledger_sql.END, values).rowcount:
                return False
            connection.execute(ledger_sql.DROP_PIECES, {"number": self.number})
            connection.execute(ledger_sql.COUNT, {"status": progress.status})
        return True

    def put_back(self) -> None:
        with self.database.transaction(self.job.tenant) as connection:
            connection.execute(ledger_sql.PUT_BACK, self._who)

    @property
    def _who(self) -> dict[str, Any]:
        return {"number": self.number, "worker": self.worker}


def _stored(number: int, file: IngestFile) -> IngestFile:
    """The file as the job has it in the database: an upload is named by its number."""
    return file if file.path is None else file.model_copy(update={"path": str(number)})


def _progress(status: str, progress: str) -> JobProgress:
    return wire.loads(JobProgress, progress).model_copy(update={"status": status})
