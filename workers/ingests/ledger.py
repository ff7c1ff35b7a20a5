"""The ledger of ingest jobs: which jobs were accepted, which worker has them, and how they ended.

A protocol: `RedisJobLedger` implements it, and `PostgresJobLedger` for stacks of several machines. Every added job
ends as succeeded, failed or cancelled. A job waits, belongs to one worker, or has ended; it changes its state in one
step. Knows jobs and workers' names; knows no documents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress, JobStatus, ListedJob

JOB_TTL_S = 7 * 24 * 3600
"""Lifetime of a job after its end, in seconds."""
UPLOAD_MISSING = "the uploaded files do not exist any more; upload them again"

ClaimState = Literal["claimed", "cancelled", "lost"]
"""`lost`: another worker may have the job now, so this one must store nothing more."""


@dataclass(frozen=True)
class JobCounts:
    """Numbers of jobs of all tenants.

    Attributes:
        jobs: queued and running jobs.
        oldest: Unix time in seconds at which the oldest of each was accepted; absent if there is none.
        ended: jobs that have ended, by final status.
    """

    jobs: Mapping[JobStatus, int]
    oldest: Mapping[JobStatus, float] = field(default_factory=dict)
    ended: Mapping[JobStatus, int] = field(default_factory=dict)


class JobClaim(Protocol):
    """One job, claimed by one worker until it ends, is put back, or is lost."""

    @property
    def job(self) -> IngestJob: ...

    @property
    def attempts(self) -> int:
        """How often a worker has taken the job and not put it back, including this time."""

    def local_files(self) -> AbstractContextManager[list[IngestFile]]:
        """The job's files, readable on this machine within the context. Raises OSError if they cannot be put there."""

    def state(self) -> ClaimState:
        """Whether to go on."""

    def report(self, progress: JobProgress) -> bool:
        """Replace the progress of the running job. If the job is lost, change nothing and return False."""

    def end(self, progress: JobProgress) -> bool:
        """End the job with its last progress. If the job is lost, change nothing and return False."""

    def put_back(self) -> None:
        """Queue the job again, before all others of its tenant. Does nothing if it is lost."""


class JobLedger(Protocol):
    """All jobs of all tenants. Safe to use from several threads and processes.

    Jobs of one collection run one after the other, in the order in which they were added; the tenant that was served
    least recently comes first. Every method raises QueueUnavailable while the ledger cannot be reached.
    """

    def add(self, job: IngestJob) -> bool:
        """Accept and queue a job. False if it was accepted before. Once this returns, the job cannot be lost."""

    def take(self, worker: str) -> JobClaim | None:
        """Claim the next job that can run for a worker; None if there is none."""

    def cancel(self, tenant: str, job_id: str) -> bool:
        """End a waiting job as cancelled, at once, or stop a running one. False if it has ended or is unknown."""

    def job(self, tenant: str, job_id: str) -> JobProgress | None:
        """A job's progress; None if it is unknown."""

    def collection(self, tenant: str, job_id: str) -> str | None:
        """The collection of a job; None if the job is unknown."""

    def jobs(self, tenant: str, limit: int) -> list[ListedJob]:
        """A tenant's jobs, the latest first, at most `limit`."""

    def available(self) -> bool:
        """Whether `take` would return a job."""

    def waiting(self, tenant: str) -> int:
        """Number of a tenant's jobs that no worker has taken yet."""

    def counts(self) -> JobCounts: ...

    def erase(self, tenant: str, collection: str, names: Collection[str] | None) -> None:
        """Remove a deleted document's names from ended jobs; None: those of all documents, the collection is gone."""

    def rename(self, tenant: str, collection: str, new: str) -> None:
        """Ended jobs of a renamed collection are those of its new name."""

    def reclaim(self, worker: str, running: Collection[str], not_put_back: Collection[str] = ()) -> int:
        """Queue the jobs of vanished workers again. Returns their number.

        Args:
            worker: the calling worker.
            running: ids of the jobs that it works on; other jobs that the ledger assigns to it are queued again too.
            not_put_back: those of the other jobs that this process could not put back; they count as put back. An
                earlier worker of the same name may have died over the rest.
        """

    def recover(self) -> int:
        """Find accepted jobs that are missing in the ledger's index, and queue them. Returns their number.

        Also removes the files of ended jobs.
        """

    def close(self) -> None:
        """Close the connections that are the ledger's own."""
