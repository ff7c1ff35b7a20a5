"""Handing ingests to the workers: the ledger has the jobs, a message through Celery wakes a worker to take one.

A message says that there is work, not which: a worker takes jobs from the ledger until none is left, so messages that
come while it works have nothing to do, and one that is lost costs a second, until a worker looks by itself.
"""

from __future__ import annotations

import contextlib
import uuid

from celery import Celery

from workers.broker.app import INGEST_QUEUE, INGEST_TASK, RedisClient
from workers.broker.messages import IngestJob, JobProgress, ListedJob
from workers.errors import QueueUnavailable, unavailable
from workers.ingests.ledger import JobCounts, JobLedger

__all__ = ["IngestQueue", "QueueUnavailable"]

MOST_LISTED = 1_000_000


class IngestQueue:
    """What the API asks of ingests. Every method raises QueueUnavailable while Redis is away.

    Args:
        app: from `make_app`.
        client: from `make_redis`, for the same Redis.
        ledger: where the jobs are kept.
    """

    def __init__(self, app: Celery, client: RedisClient, ledger: JobLedger) -> None:
        self._app = app
        self._redis = client
        self._ledger = ledger

    def enqueue(self, job: IngestJob) -> None:
        """Accept a job: from here on it ends as succeeded, failed or cancelled. Its files are the workers' to delete.

        Raises:
            OSError: it cannot be written to disk; nothing was kept of it.
        """
        self._ledger.add(job)
        with contextlib.suppress(QueueUnavailable):  # then a worker finds it by itself
            self.wake()

    def wake(self) -> None:
        """Have a worker look for jobs."""
        with unavailable():
            self._app.send_task(INGEST_TASK, task_id=uuid.uuid4().hex, retry=False)

    def cancel(self, tenant: str, job_id: str) -> bool:
        """End a waiting ingest at once, have a running one stop. False if it ended or is not kept."""
        return self._ledger.cancel(tenant, job_id)

    def cancel_all(self, tenant: str, collection: str) -> None:
        """End all ingests of a collection: it is deleted, and they must not fill another one of its name."""
        for job in self._ledger.jobs(tenant, MOST_LISTED):
            if job.collection == collection and job.status in ("queued", "running"):
                self._ledger.cancel(tenant, job.job_id)

    def job(self, tenant: str, job_id: str) -> JobProgress | None:
        """How an ingest goes; None if it is not kept."""
        return self._ledger.job(tenant, job_id)

    def collection(self, tenant: str, job_id: str) -> str | None:
        """What an ingest fills; None if it is not kept."""
        return self._ledger.collection(tenant, job_id)

    def jobs(self, tenant: str, limit: int) -> list[ListedJob]:
        """A tenant's ingests that are kept, the latest first, `limit` of them at most."""
        return self._ledger.jobs(tenant, limit)

    def waiting(self, tenant: str) -> int:
        """A tenant's ingests that no worker has taken yet."""
        return self._ledger.waiting(tenant)

    def counts(self) -> JobCounts:
        return self._ledger.counts()

    def unsent(self) -> bool:
        """Whether a job could be taken and no message says so."""
        with unavailable():
            return not self._redis.llen(INGEST_QUEUE) and self._ledger.available()
