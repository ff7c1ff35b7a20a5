"""The result of an ingest that was sent in several jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rag_service.contract.responses import IngestFailure, JobProgress


@dataclass(frozen=True)
class Ingested:
    """`failures` names what could not be read, with the reason; the rest is in the collection. `done` counts both."""

    total: int
    done: int = 0
    failures: tuple[IngestFailure, ...] = ()
    cancelled: bool = False

    def plus(self, job: JobProgress) -> Ingested:
        return replace(
            self,
            done=self.done + job.done,
            failures=(*self.failures, *job.failures),
            cancelled=self.cancelled or job.status == "cancelled",
        )

    def offset(self, progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
        """`progress` for the next job, counting the jobs before it as well."""
        if progress is None:
            return None
        return lambda done, total: progress(self.done + done, self.total)
