"""One worker's ingests: jobs from the ledger, one after the other, and the look for those that nobody works on.

Knows when a job is taken, put back and given up; what is done with it is in `ingestion`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from retriever import CollectionBusy, Library
from workers.errors import QueueUnavailable, RuntimeClosed
from workers.ingests.ingestion import fail, ingest
from workers.ingests.ledger import JobClaim, JobLedger
from workers.ingests.queue import IngestQueue
from workers.sessions.passage_ids import PassageIds

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 8
"""Workers that may die over one job; then it is given up."""
PATIENCE_BEATS = 5
"""Heartbeats for which a waiting job is left to Celery's messages; then it is taken without one."""
RECOVER_S = 5.0
"""Seconds between two looks at the jobs on disk."""
CLOSE_S = 10.0
"""Seconds that a job gets to stop between two batches of chunks."""


class IngestRunner:
    """Runs one ingest at a time, so that answers always find a free thread.

    Args:
        ledger: all jobs.
        library: the default tenant's collections; None where this worker ingests nothing.
        passage_ids: where passages' token ids are kept.
        worker: this worker's name, as in its heartbeat.
        closing: whether the worker shuts down.
    """

    def __init__(
        self,
        ledger: JobLedger,
        library: Library | None,
        passage_ids: PassageIds,
        worker: str,
        closing: Callable[[], bool],
    ) -> None:
        self._ledger = ledger
        self._library = library
        self._passage_ids = passage_ids
        self._worker = worker
        self._closing = closing
        self._slot = threading.Lock()
        self._held: set[str] = set()
        self._given_up: set[str] = set()
        """Jobs that could not be put back, as Redis was away."""
        self._noting = threading.Lock()
        """Held while a job is taken and noted, so that `look` never finds one that is taken and not noted."""
        self._recover_at = 0.0
        self._beats = 0
        """Heartbeats in a row at which a job waited and nothing ran."""
        self._unasked: threading.Thread | None = None
        """Works off the ledger where no message came."""

    def run(self) -> None:
        """Work off the ledger. Does nothing where this worker does so already.

        Raises:
            RuntimeClosed, QueueUnavailable: this worker cannot go on; another one can.
        """
        if self._library is None or not self._slot.acquire(blocking=False):
            return
        try:
            while (claim := self._take()) is not None:
                try:
                    if not self._one(claim, self._library):
                        return
                finally:
                    self._held.discard(claim.job.job_id)
        finally:
            self._slot.release()

    def look(self, queue: IngestQueue) -> None:
        """What is due with every heartbeat: jobs whose worker is gone wait again, and somebody is told of them.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with self._noting:
            lost = self._ledger.reclaim(self._worker, self._held, self._given_up)
            self._given_up.clear()
        if lost:
            log.warning("%d ingests were left by their worker; they wait again", lost)
        if self._library is None:
            return
        if time.monotonic() >= self._recover_at:
            found = self._ledger.recover()
            if found:
                log.warning("%d accepted ingests were unknown to Redis; they wait again", found)
            self._recover_at = time.monotonic() + RECOVER_S
        if self._slot.locked() or not self._ledger.available():
            self._beats = 0
            return
        self._beats += 1
        if self._beats > PATIENCE_BEATS:  # a message is there and not read, as after Redis was away
            self._beats = 0
            self._unasked = threading.Thread(target=self._run_unasked, name="ingest", daemon=True)
            self._unasked.start()
        elif queue.unsent():
            queue.wake()

    def close(self) -> None:
        """Wait for the thread that `look` started; the worker is closing already."""
        if self._unasked is not None:
            self._unasked.join(CLOSE_S)

    def _run_unasked(self) -> None:
        try:
            self.run()
        except (RuntimeClosed, QueueUnavailable) as error:
            log.warning("an ingest stops here: %s", error)

    def _take(self) -> JobClaim | None:
        with self._noting:
            claim = self._ledger.take(self._worker)
            if claim is not None:
                self._held.add(claim.job.job_id)
        return claim

    def _one(self, claim: JobClaim, library: Library) -> bool:
        """Whether to go on with the next."""
        job = claim.job
        if claim.attempts > MOST_ATTEMPTS:
            reason = f"{MOST_ATTEMPTS} workers ended while they read it; leave out the file that does so, and try again"
            fail(claim, reason)
            return True
        try:
            ingest(claim, library.of(job.tenant), self._passage_ids, self._closing)
        except RuntimeClosed:
            claim.put_back()
            raise
        except QueueUnavailable:
            self._given_up.add(job.job_id)  # `look` lets it wait again
            raise
        except CollectionBusy as busy:
            log.warning("ingest %s waits: %s", job.job_id, busy)
            claim.put_back()
            return False
        except Exception as error:
            log.exception("ingest %s failed", job.job_id)
            fail(claim, f"the ingest failed ({type(error).__name__}: {error}); try again")
        return True
