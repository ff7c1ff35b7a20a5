"""Hands ingests to the workers: the ledger has the jobs, and a Celery message wakes a worker to take one.

A message does not name a job: a worker takes jobs from the ledger until there are no more. So messages that arrive
while it works have no effect, and a lost one costs seconds, until a worker checks the ledger by itself.
"""

from __future__ import annotations

import contextlib
import uuid

from celery import Celery

from workers.broker.app import INGEST_QUEUE, INGEST_TASK, RedisClient
from workers.broker.ingest_messages import IngestJob
from workers.errors import QueueUnavailable, unavailable
from workers.ingests.ledger import JobLedger

__all__ = ["IngestQueue", "QueueUnavailable"]

MOST_LISTED = 1_000_000


class IngestQueue:
    """The API's view of ingests: the ledger's own methods, and those that send messages.

    Every method raises QueueUnavailable while Redis is away.

    Args:
        app: from `make_app`.
        client: from `make_redis`, for the same Redis.
        ledger: all jobs.
    """

    def __init__(self, app: Celery, client: RedisClient, ledger: JobLedger) -> None:
        self._app = app
        self._redis = client
        self._ledger = ledger
        self.cancel, self.job, self.jobs, self.collection = ledger.cancel, ledger.job, ledger.jobs, ledger.collection
        self.waiting, self.counts = ledger.waiting, ledger.counts
        self.erase, self.rename = ledger.erase, ledger.rename

    def enqueue(self, job: IngestJob) -> None:
        """Accept a job: it will end as succeeded, failed or cancelled, and the workers delete its files.

        Raises:
            OSError: it cannot be written to disk; nothing is left of it.
        """
        self._ledger.add(job)
        with contextlib.suppress(QueueUnavailable):  # a worker then detects it by itself
            self.wake()

    def wake(self) -> None:
        """Make a worker check the ledger."""
        with unavailable():
            self._app.send_task(INGEST_TASK, task_id=uuid.uuid4().hex, retry=False)

    def under_way(self, tenant: str, collection: str) -> list[str]:
        """Ids of the ingests of a collection that have not ended."""
        return [
            job.job_id
            for job in self._ledger.jobs(tenant, MOST_LISTED)
            if job.collection == collection and job.status in ("queued", "running")
        ]

    def cancel_all(self, tenant: str, collection: str) -> None:
        """End all ingests of a deleted collection: they must not fill a new one of its name."""
        for job_id in self.under_way(tenant, collection):
            self._ledger.cancel(tenant, job_id)

    def unsent(self) -> bool:
        """Whether a job can be taken and no message announces it."""
        with unavailable():
            return not self._redis.llen(INGEST_QUEUE) and self._ledger.available()
