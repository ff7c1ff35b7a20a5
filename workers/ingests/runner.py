"""One worker's ingests: it takes jobs from the ledger one by one, and recovers jobs that no worker has.

Knows when a job is taken, put back and failed; `ingestion` does the work.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from decoder.openmp import give_back_threads
from retriever import CollectionBusy, Library, StoreUnavailable
from workers.errors import QueueUnavailable, RuntimeClosed
from workers.ingests.ingestion import fail, ingest
from workers.ingests.ledger import JobClaim, JobLedger
from workers.ingests.queue import IngestQueue
from workers.sessions.passage_ids import PassageIds

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 8
"""Workers that may die over one job before it fails."""
PATIENCE_BEATS = 5
"""Heartbeats for which a waiting job waits for a Celery message; then a worker takes it without one."""
RECOVER_S = 5.0
"""Seconds between two checks of the jobs on disk."""
CLOSE_S = 10.0
"""Seconds that a job has to stop between two batches of chunks."""


class IngestRunner:
    """Runs one ingest at a time, so that there is always a free thread for answers.

    Args:
        ledger: all jobs.
        library: the default tenant's collections; None if this worker ingests nothing.
        passage_ids: stores passages' token ids.
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
        self._running: set[str] = set()
        self._not_put_back: set[str] = set()
        """Jobs that could not be put back, as Redis was away."""
        self._claim_lock = threading.Lock()
        """Locked while a job is taken and added to `_running`, so that `look` never sees only one of the two."""
        self._recover_at = 0.0
        self._beats = 0
        """Heartbeats in a row at which a job waited and nothing ran."""
        self._fallback: threading.Thread | None = None
        """Works off the ledger if no message came."""
        self._recovering: threading.Thread | None = None

    def run(self) -> None:
        """Work off the ledger. Does nothing if this worker does so already.

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
                    self._running.discard(claim.job.job_id)
                    give_back_threads()
        finally:
            self._slot.release()

    def recover_apart(self, queue: IngestQueue) -> None:
        """`recover` in a thread of its own, so that a database that hangs delays no heartbeat."""
        if self._recovering is None or not self._recovering.is_alive():
            self._recovering = threading.Thread(target=self._try_recover, args=(queue,), name="ledger", daemon=True)
            self._recovering.start()

    def _try_recover(self, queue: IngestQueue) -> None:
        try:
            self.recover(queue)
        except QueueUnavailable as error:
            log.warning("waiting ingests are not looked at: %s", error)
        except Exception:
            log.exception("waiting ingests are not looked at")

    def recover(self, queue: IngestQueue) -> None:
        """Call with every heartbeat: queue jobs of vanished workers again, and wake a worker for waiting jobs.

        Raises:
            QueueUnavailable: Redis is away.
        """
        with self._claim_lock:
            lost = self._ledger.reclaim(self._worker, self._running, self._not_put_back)
            self._not_put_back.clear()
        if lost:
            log.warning("%d ingests lost their worker; they wait again", lost)
        if self._library is None:
            return
        if time.monotonic() >= self._recover_at:
            recovered = self._ledger.recover()
            if recovered:
                log.warning("%d accepted ingests were missing in the ledger; they wait again", recovered)
            self._recover_at = time.monotonic() + RECOVER_S
        if self._slot.locked() or not self._ledger.available():
            self._beats = 0
            return
        self._beats += 1
        if self._beats > PATIENCE_BEATS:  # a message exists and is not read, as after Redis was away
            self._beats = 0
            self._fallback = threading.Thread(target=self._run_fallback, name="ingest", daemon=True)
            self._fallback.start()
        elif queue.unsent():
            queue.wake()

    def close(self) -> None:
        """Wait for the threads that `recover_apart` and `recover` started; the worker is closing already."""
        for thread in (self._recovering, self._fallback):
            if thread is not None:
                thread.join(CLOSE_S)

    def _run_fallback(self) -> None:
        try:
            self.run()
        except (RuntimeClosed, QueueUnavailable) as error:
            log.warning("an ingest stops here: %s", error)

    def _take(self) -> JobClaim | None:
        with self._claim_lock:
            claim = self._ledger.take(self._worker)
            if claim is not None:
                self._running.add(claim.job.job_id)
        return claim

    def _one(self, claim: JobClaim, library: Library) -> bool:
        """Do one job. Returns whether to go on with the next."""
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
            self._not_put_back.add(job.job_id)  # `look` queues it again
            raise
        except StoreUnavailable as error:
            self._not_put_back.add(job.job_id)  # the ledger may be in the same database
            raise QueueUnavailable(str(error)) from error
        except CollectionBusy as busy:
            log.warning("ingest %s waits: %s", job.job_id, busy)
            claim.put_back()
            return False
        except Exception as error:
            log.exception("ingest %s failed", job.job_id)
            fail(claim, f"the ingest failed ({type(error).__name__}: {error}); try again")
        return True
