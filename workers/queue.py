"""Putting work into the queue, asking how it goes, and stopping it.

Knows records, task names and heartbeats; knows no engine and no HTTP. A call either keeps everything or nothing.
"""

from __future__ import annotations

import time
from typing import Any

from celery import Celery

from workers import keys, lua, routing, wire
from workers.app import GENERATE_QUEUE, GENERATE_TASK, INGEST_QUEUE, INGEST_TASK, RedisClient
from workers.errors import ClaimLost, QueueUnavailable, unavailable
from workers.messages import GenerateJob, IngestJob, JobProgress, ListedJob, PassagesEvent
from workers.streams import ANSWER_TTL_S, CLAIM_S, SESSION_TTL_S

__all__ = ["Queue", "QueueUnavailable"]

ALIVE_S = 15
"""A worker whose last heartbeat is older counts as away."""
JOB_TTL_S = 7 * 24 * 3600


class Queue:
    """The way to the workers. Every method raises QueueUnavailable while Redis is away.

    Args:
        app: from `make_app`.
        client: from `make_redis`, for the same Redis.
        answer_ttl_s, session_ttl_s: seconds for which answers and sessions are kept.
    """

    def __init__(
        self,
        app: Celery,
        client: RedisClient,
        *,
        answer_ttl_s: int = ANSWER_TTL_S,
        session_ttl_s: int = SESSION_TTL_S,
    ) -> None:
        self._app = app
        self._redis = client
        self._answer_ttl_s = answer_ttl_s
        self._session_ttl_s = session_ttl_s

    def enqueue_generate(self, job: GenerateJob, *, claimed: bool = False) -> None:
        """Keep the answer's record and its first event (the passages), then send the task.

        Args:
            claimed: the answer must have its session's next turn (`Sessions.claim`), and keeps it while it runs.

        Raises:
            ClaimLost: it does not have it any more.
        """
        root = job.edit.root if job.edit else ""
        names = [
            keys.answer(job.owner, job.answer_id),
            keys.answer_events(job.owner, job.answer_id),
            keys.session(job.owner, job.session_id),
            keys.session_answers(job.owner, job.session_id),
            keys.sessions(job.owner),
            keys.session_claim(job.owner, job.session_id),
            keys.versions(job.owner, root),
        ]
        args: list[str | int | float] = [
            self._answer_ttl_s,
            wire.dumps(PassagesEvent(passages=job.passages)),
            time.time(),
            job.session_id,
            job.answer_id,
            self._session_ttl_s,
            CLAIM_S if claimed else "",
            root,
            max(self._answer_ttl_s, self._session_ttl_s),
        ]
        fields: dict[str, str | int] = {"request": wire.dumps(job), "status": "queued", "streamed": 0}
        for name, value in fields.items():
            args += [name, value]
        with unavailable():
            try:
                if lua.run(self._redis, lua.CREATE, names, args) == -1:
                    raise ClaimLost(job.session_id)
                queue = routing.home_queue(self._redis, job.owner, job.session_id or job.rewrites or "")
                self._send(GENERATE_TASK, job.owner, job.answer_id, queue)
            except ClaimLost:
                raise
            except BaseException:
                names.append(keys.session_turns(job.owner, job.session_id))
                self._undo(lambda: lua.run(self._redis, lua.FORGET, names, [job.session_id, job.answer_id]))
                raise

    def enqueue_ingest(self, job: IngestJob) -> None:
        """Keep the job and its progress, then send the task. Uploaded files are the worker's from then on."""
        name = keys.job(job.tenant, job.job_id)
        progress = JobProgress(job_id=job.job_id, status="queued", total=len(job.files))
        with unavailable():
            try:
                with self._redis.pipeline(transaction=True) as pipe:
                    told = {"collection": job.collection, "created": job.created}
                    pipe.hset(name, mapping={"request": wire.dumps(job), "progress": wire.dumps(progress), **told})
                    pipe.expire(name, JOB_TTL_S)
                    pipe.zadd(keys.jobs(job.tenant), {job.job_id: job.created})
                    pipe.expire(keys.jobs(job.tenant), JOB_TTL_S)
                    pipe.execute()
                self._send(INGEST_TASK, job.tenant, job.job_id)
            except BaseException:
                self._undo(lambda: self._redis.delete(name))
                self._undo(lambda: self._redis.zrem(keys.jobs(job.tenant), job.job_id))
                raise

    def cancel(self, owner: str, answer_id: str) -> bool:
        """Ask for an answer to stop; it ends as `cancelled` with what it has. False if it ended or is not kept."""
        with unavailable():
            status = self._redis.hget(keys.answer(owner, answer_id), "status")
            if status not in ("queued", "running"):
                return False
            self._redis.set(keys.answer_cancel(owner, answer_id), 1, ex=self._answer_ttl_s)
        return True

    def cancel_job(self, tenant: str, job_id: str) -> bool:
        """Ask for an ingest to stop. False if it ended or is not kept."""
        progress = self.job(tenant, job_id)
        if progress is None or progress.status not in ("queued", "running"):
            return False
        with unavailable():
            self._redis.set(keys.job_cancel(tenant, job_id), 1, ex=JOB_TTL_S)
        return True

    def job(self, tenant: str, job_id: str) -> JobProgress | None:
        """How an ingest goes; None if it is not kept."""
        with unavailable():
            text = self._redis.hget(keys.job(tenant, job_id), "progress")
        return None if text is None else wire.loads(JobProgress, text)

    def job_collection(self, tenant: str, job_id: str) -> str | None:
        """What an ingest fills; None if it is not kept."""
        with unavailable():
            found: str | None = self._redis.hget(keys.job(tenant, job_id), "collection")
        return found

    def jobs(self, tenant: str, limit: int) -> list[ListedJob]:
        """A tenant's ingests that are kept, the latest first, `limit` of them at most."""
        with unavailable():
            self._redis.zremrangebyscore(keys.jobs(tenant), "-inf", time.time() - JOB_TTL_S)
            ids = self._redis.zrange(keys.jobs(tenant), 0, limit - 1, desc=True)
            with self._redis.pipeline(transaction=False) as pipe:
                for job_id in ids:
                    pipe.hmget(keys.job(tenant, job_id), "progress", "collection", "created")
                kept = [found for found in pipe.execute() if None not in found]
        return [
            ListedJob(**wire.loads(JobProgress, progress).model_dump(), collection=collection, created=float(created))
            for progress, collection, created in kept
        ]

    def worker_alive(self) -> bool:
        """Whether a worker that has its models loaded was heard of in the last 15 seconds."""
        return bool(self.workers())

    def workers(self) -> list[dict[str, Any]]:
        """What the workers alive say of themselves: name, model, tokenizer (its hash), window, drafter."""
        with unavailable():
            now, _ = self._redis.time()
            names = self._redis.zrange(keys.WORKERS, now - ALIVE_S, "+inf", byscore=True)
            texts = self._redis.hmget(keys.WORKER_INFO, names) if names else []
        return [{"name": name, **(wire.load_any(text) or {})} for name, text in zip(names, texts, strict=True)]

    def depth(self) -> dict[str, int]:
        """Tasks that no worker has taken yet, by queue."""
        with unavailable():
            depth = {name: int(self._redis.llen(name)) for name in (GENERATE_QUEUE, INGEST_QUEUE)}
        depth[GENERATE_QUEUE] += routing.waiting(self._redis)
        return depth

    def ping(self) -> None:
        """Raises QueueUnavailable unless Redis answers."""
        with unavailable():
            self._redis.ping()

    def _send(self, task: str, whose: str, key: str, queue: str | None = None) -> None:
        options = {} if queue is None else {"queue": queue}
        self._app.send_task(task, args=[whose, key], task_id=key, retry=False, **options)

    @staticmethod
    def _undo(action: Any) -> None:
        try:
            with unavailable():
                action()
        except QueueUnavailable:
            pass  # no task was sent, so what may be left expires unread
