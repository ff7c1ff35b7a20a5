"""The ledger of ingest jobs with its state in Redis and the jobs themselves on disk.

Redis has the order, the claims and the progress; `JobFiles` has the accepted jobs. So a Redis that loses its last
writes, or all of them, loses no job: `recover` queues every job that is on disk and not in Redis.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from workers.broker import keys, lua, wire
from workers.broker.app import LAPSE_S, RedisClient
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import IngestFailure, JobProgress, JobStatus, ListedJob
from workers.errors import unavailable
from workers.ingests import ledger_lua
from workers.ingests.erasing import named, without
from workers.ingests.files import JobFiles
from workers.ingests.ledger import JOB_TTL_S, UPLOAD_MISSING, ClaimState, JobClaim, JobCounts
from workers.sessions import erased

WRITTEN_S = 5.0
"""Seconds after which Redis has surely written a job's end to disk; then its files are removed."""

log = logging.getLogger(__name__)

_ORDER = (keys.INGEST_TENANTS, keys.INGEST_RUNNING, keys.INGEST_TURN)


class RedisJobLedger:
    """`JobLedger` over one Redis and one folder that API and workers share.

    Args:
        client: from `make_redis`.
        files: the accepted jobs on disk.
        lapse_s: seconds of silence after which other workers take over a worker's jobs.
    """

    def __init__(self, client: RedisClient, files: JobFiles, lapse_s: int = LAPSE_S) -> None:
        self._redis = client
        self._files = files
        self._lapse_s = lapse_s
        self._adopted = False
        self._tenants: dict[str, str] = {}
        """Tenants of the jobs on disk, by job id."""

    def add(self, job: IngestJob) -> bool:
        """As JobLedger.add. Raises OSError if the job cannot be written to disk."""
        self._files.keep(job)
        try:
            return self._index(job, JobProgress(job_id=job.job_id, status="queued", total=len(job.files)))
        except BaseException:
            self._files.drop(job.job_id)  # if Redis has an entry, it ends as failed; the job was not accepted
            raise

    def take(self, worker: str) -> JobClaim | None:
        self._recover_after_a_loss()
        unreadable: list[JobClaim] = []
        try:
            return self._take(worker, unreadable)
        finally:
            for claim in reversed(unreadable):  # restores their order
                claim.put_back()

    def _take(self, worker: str, unreadable: list[JobClaim]) -> JobClaim | None:
        """`take`; jobs that cannot be read now stay claimed, so that jobs of other collections get their turn."""
        while True:
            taken = lua.run(self._redis, ledger_lua.TAKE, _ORDER, [worker])
            if not taken:
                return None
            tenant, job_id, attempts = taken
            bare = IngestJob(job_id=job_id, tenant=tenant, collection="", files=[], created=0.0)
            try:
                job = self._load(tenant, job_id)
            except OSError as error:
                log.error("ingest %s cannot be read here, so it waits: %s", job_id, error)
                unreadable.append(RedisJobClaim(self._redis, self._files, worker, bare, int(attempts)))
                continue
            claim = RedisJobClaim(self._redis, self._files, worker, job or bare, int(attempts))
            ended = self._files.ended(job_id)
            if ended is not None:  # Redis lost the end
                claim.end(ended[0])
            elif job is None:
                failures = [IngestFailure(name=job_id, reason=UPLOAD_MISSING)]
                claim.end(JobProgress(job_id=job_id, status="failed", failures=failures))
            else:
                return claim

    def _recover_after_a_loss(self) -> None:
        """Recover before a Redis run's first job: it may have lost jobs, which come before newer ones."""
        with unavailable():
            server = self._redis.info("server")["run_id"]
            if self._redis.get(keys.INGEST_RECOVERED) == server:
                return
        self.recover()
        with unavailable():
            self._redis.set(keys.INGEST_RECOVERED, server)

    def available(self) -> bool:
        return bool(lua.run(self._redis, ledger_lua.TAKE, _ORDER, [""]))

    def cancel(self, tenant: str, job_id: str) -> bool:
        names = [keys.job(tenant, job_id), keys.jobs_waiting(tenant), keys.INGEST_ENDED]
        result = lua.run(self._redis, ledger_lua.CANCEL, names, [job_id, JOB_TTL_S])
        if result == "ended" and (progress := self.job(tenant, job_id)) is not None:
            self._files.end(job_id, progress)
        return bool(result)

    def job(self, tenant: str, job_id: str) -> JobProgress | None:
        with unavailable():
            status, progress = self._redis.hmget(keys.job(tenant, job_id), "status", "progress")
        return None if progress is None else _progress(status, progress)

    def collection(self, tenant: str, job_id: str) -> str | None:
        with unavailable():
            collection: str | None = self._redis.hget(keys.job(tenant, job_id), "collection")
        return collection

    def jobs(self, tenant: str, limit: int) -> list[ListedJob]:
        with unavailable():
            self._redis.zremrangebyscore(keys.jobs(tenant), "-inf", time.time() - JOB_TTL_S)
            ids = self._redis.zrange(keys.jobs(tenant), 0, limit - 1, desc=True)
            with self._redis.pipeline(transaction=False) as pipe:
                for job_id in ids:
                    pipe.hmget(keys.job(tenant, job_id), "status", "progress", "collection", "created")
                jobs = pipe.execute()
        return [
            ListedJob(**_progress(status, progress).model_dump(), collection=collection, created=float(created))
            for status, progress, collection, created in jobs
            if None not in (progress, collection, created)
        ]

    def waiting(self, tenant: str) -> int:
        with unavailable():
            return int(self._redis.llen(keys.jobs_waiting(tenant)))

    def counts(self) -> JobCounts:
        names = [keys.INGEST_TENANTS, keys.INGEST_RUNNING]
        queued, first, running, oldest = lua.run(self._redis, ledger_lua.COUNTS, names)
        with unavailable():
            ended = self._redis.hgetall(keys.INGEST_ENDED)
        times: dict[JobStatus, str] = {"queued": first, "running": oldest}
        return JobCounts(
            {"queued": queued, "running": running},
            {status: float(created) for status, created in times.items() if created},
            {status: int(ended.get(status, 0)) for status in ("succeeded", "failed", "cancelled")},
        )

    def erase(self, tenant: str, collection: str, names: Collection[str] | None) -> None:
        changed = False
        with unavailable():
            ids = [str(one) for one in self._redis.smembers(keys.jobs_with_names(tenant))]
            with self._redis.pipeline(transaction=False) as pipe:
                for job_id in ids:
                    pipe.hmget(keys.job(tenant, job_id), "collection", "progress")
                jobs = pipe.execute()
        for job_id, (held, text) in zip(ids, jobs, strict=True):
            if text is None:  # it expired
                with unavailable():
                    self._redis.srem(keys.jobs_with_names(tenant), job_id)
                continue
            progress = wire.loads(JobProgress, text)
            left = without(progress, names)
            if held == collection and left != progress:
                lua.run(self._redis, ledger_lua.REPLACE, [keys.job(tenant, job_id)], [wire.dumps(left)])
                self._files.end(job_id, left)
                changed = True
        if changed:
            erased.note(self._redis)

    def rename(self, tenant: str, collection: str, new: str) -> None:
        lua.run(self._redis, ledger_lua.RENAME, [keys.jobs(tenant)], [tenant, collection, new])

    def close(self) -> None:
        """Nothing: the Redis client is the caller's."""

    def reclaim(self, worker: str, running: Collection[str], not_put_back: Collection[str] = ()) -> int:
        args = [worker, self._lapse_s, len(running), *running, *not_put_back]
        return int(lua.run(self._redis, ledger_lua.RECLAIM, [keys.INGEST_RUNNING, keys.WORKERS], args))

    def recover(self) -> int:
        recovered = 0
        if not self._adopted:
            recovered += self._adopt()
            self._adopted = True
        on_disk = self._files.ids()
        self._tenants = {job_id: tenant for job_id in on_disk if (tenant := self._tenant(job_id)) is not None}
        for job_id, tenant in self._tenants.items():
            indexed = self.job(tenant, job_id)
            ended = self._files.ended(job_id)  # read last, as an end is written to disk first
            if indexed is None and (job := self._readable(job_id)) is not None:
                progress = JobProgress(job_id=job_id, status="queued", total=len(job.files))
                recovered += self._index(job, ended[0] if ended else progress) and ended is None
            elif indexed is not None and indexed.status not in ("queued", "running"):
                if ended is None:
                    self._files.end(job_id, indexed)
                elif ended[1] > WRITTEN_S:
                    self._files.drop(job_id)
        return recovered

    def _tenant(self, job_id: str) -> str | None:
        """The tenant of a job on disk; read once, as a job may contain long texts."""
        if job_id in self._tenants:
            return self._tenants[job_id]
        job = self._readable(job_id)
        return None if job is None else job.tenant

    def _readable(self, job_id: str) -> IngestJob | None:
        try:
            return self._files.load(job_id)
        except OSError as error:
            log.error("ingest %s cannot be read: %s", job_id, error)
            return None

    def _index(self, job: IngestJob, progress: JobProgress) -> bool:
        """Enter the job in Redis, as waiting or as ended. False if it is there already."""
        names = [
            keys.job(job.tenant, job.job_id),
            keys.jobs(job.tenant),
            keys.jobs_waiting(job.tenant),
            keys.INGEST_TENANTS,
            keys.jobs_with_names(job.tenant),
        ]
        args = [
            job.job_id,
            job.tenant,
            job.created,
            job.collection,
            wire.dumps(progress),
            progress.status,
            JOB_TTL_S,
            int(named(progress)),
        ]
        return bool(lua.run(self._redis, ledger_lua.ADD, names, args))

    def _load(self, tenant: str, job_id: str) -> IngestJob | None:
        """The job from disk; jobs of earlier versions come from Redis."""
        with unavailable():
            text = self._redis.hget(keys.job(tenant, job_id), "request")
        return self._files.load(job_id) if text is None else wire.loads(IngestJob, text)

    def _adopt(self) -> int:
        """Queue the unfinished jobs of earlier versions, which had no order. Returns their number."""
        adopted = 0
        with unavailable():
            for key in self._redis.scan_iter(match=keys.job("*", "*"), count=1000, _type="hash"):
                _, tenant, kind, job_id, *more = key.split(":")
                if kind != "job" or more:  # a session may be called `job`
                    continue
                text = self._redis.hget(key, "request")
                if text is not None:
                    self._files.keep(wire.loads(IngestJob, text))
                    self._redis.hdel(key, "request")
                names = [key, keys.jobs_waiting(tenant), keys.INGEST_TENANTS]
                adopted += lua.run(self._redis, ledger_lua.ADOPT, names, [job_id, tenant])
        return adopted


@dataclass(frozen=True)
class RedisJobClaim:
    """`JobClaim` of a `RedisJobLedger`."""

    client: RedisClient
    files: JobFiles
    worker: str
    job: IngestJob
    attempts: int

    def local_files(self) -> AbstractContextManager[list[IngestFile]]:
        return nullcontext(self.job.files)

    def state(self) -> ClaimState:
        state: ClaimState = lua.run(self.client, ledger_lua.STATE, [self._key], [self.worker])
        return state

    def report(self, progress: JobProgress) -> bool:
        return bool(lua.run(self.client, ledger_lua.REPORT, [self._key], [self.worker, wire.dumps(progress)]))

    def end(self, progress: JobProgress) -> bool:
        if self.state() == "lost":
            return False
        self.files.end(self.job.job_id, progress)  # first: recovers the end if Redis loses it
        names = [self._key, keys.INGEST_RUNNING, keys.INGEST_ENDED]
        names.append(keys.jobs_with_names(self.job.tenant))
        args = [self.worker, wire.dumps(progress), progress.status, self._field, JOB_TTL_S]
        args += [self.job.job_id, int(named(progress))]
        return bool(lua.run(self.client, ledger_lua.END, names, args))

    def put_back(self) -> None:
        names = [self._key, keys.INGEST_RUNNING, keys.jobs_waiting(self.job.tenant)]
        lua.run(self.client, ledger_lua.PUT_BACK, names, [self.worker, self.job.job_id, self._field])

    @property
    def _key(self) -> str:
        return keys.job(self.job.tenant, self.job.job_id)

    @property
    def _field(self) -> str:
        return f"{self.job.tenant} {self.job.job_id}"


def _progress(status: str | None, progress: str) -> JobProgress:
    """The progress with the job's status; jobs of earlier versions have the status only in their progress."""
    parsed = wire.loads(JobProgress, progress)
    return parsed if status is None else parsed.model_copy(update={"status": status})
