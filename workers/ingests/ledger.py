"""The ledger of ingest jobs: what was accepted, who works on it, and how it ended.

A protocol, so that jobs can be kept elsewhere than in Redis; `RedisJobLedger` is the one there is. Whatever was added
ends as succeeded, failed or cancelled: a job waits, is held by one worker, or has ended, and goes from one to the next
in one step. Knows jobs and workers' names; knows no documents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from workers.broker.messages import IngestJob, JobProgress, JobStatus, ListedJob

ClaimState = Literal["held", "cancelled", "lost"]
"""`lost`: another worker may have the job by now; what this one does must not go in."""


@dataclass(frozen=True)
class JobCounts:
    """How many jobs there are.

    Attributes:
        jobs: queued and running ones, of all tenants.
        oldest: Unix time in seconds at which the oldest of each was accepted; absent where there is none.
        ended: jobs that ended since the ledger began, by how.
    """

    jobs: Mapping[JobStatus, int]
    oldest: Mapping[JobStatus, float] = field(default_factory=dict)
    ended: Mapping[JobStatus, int] = field(default_factory=dict)


class JobClaim(Protocol):
    """One job, held by one worker until it ends, is put back, or is lost."""

    @property
    def job(self) -> IngestJob: ...

    @property
    def attempts(self) -> int:
        """How often a worker has taken the job and not put it back, this time included."""

    def state(self) -> ClaimState:
        """Whether to go on."""

    def report(self, progress: JobProgress) -> bool:
        """Replace the progress of the running job. False, and nothing is changed, if the job is lost."""

    def end(self, progress: JobProgress) -> bool:
        """End the job with its last progress. False, and nothing is changed, if the job is lost."""

    def put_back(self) -> None:
        """Let the job wait again, before all others of its tenant. Nothing happens if it is lost."""


class JobLedger(Protocol):
    """All jobs of all tenants. Safe to use from several threads and processes.

    Jobs of one collection run one after the other, in the order in which they were added; of two tenants the one that
    was served longer ago comes first. Every method raises QueueUnavailable while the ledger cannot be reached.
    """

    def add(self, job: IngestJob) -> bool:
        """Accept a job; it waits. False if it was accepted before. Once this returns, the job cannot be lost."""

    def take(self, worker: str) -> JobClaim | None:
        """Give the next job that can run to a worker; None if there is none."""

    def cancel(self, tenant: str, job_id: str) -> bool:
        """End a waiting job as cancelled, at once; ask a running one to stop. False if it ended or is not kept."""

    def job(self, tenant: str, job_id: str) -> JobProgress | None:
        """How a job goes; None if it is not kept."""

    def collection(self, tenant: str, job_id: str) -> str | None:
        """What a job fills; None if it is not kept."""

    def jobs(self, tenant: str, limit: int) -> list[ListedJob]:
        """A tenant's jobs, the latest first, `limit` of them at most."""

    def available(self) -> bool:
        """Whether `take` would give a job."""

    def waiting(self, tenant: str) -> int:
        """A tenant's jobs that no worker has taken yet."""

    def counts(self) -> JobCounts: ...

    def reclaim(self, worker: str, held: Collection[str], given_up: Collection[str] = ()) -> int:
        """Let the jobs wait again whose workers are not heard of any more. Returns how many there were.

        Args:
            worker: who asks.
            held: ids of the jobs that it works on; others that it is said to hold wait again as well.
            given_up: those of the others that this very process could not put back, so that they count as put back. A
                worker of the same name may have died over the rest.
        """

    def recover(self) -> int:
        """Find accepted jobs that the ledger's index does not know of, and let them wait. Returns how many.

        Also removes what ended jobs have left on disk.
        """
