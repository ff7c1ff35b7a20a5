"""Queues answers and cancels them.

Knows records, task names and heartbeats; knows no engine and no HTTP. A call changes everything or nothing.

Next, in the API: `streaming` (`rag_service/api/sse.py`), which sends the event `passages` at once. Next, in a worker:
`run_generate` (`workers/worker/tasks.py`).
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from celery import Celery

from workers.broker import keys, lua, wire
from workers.broker.app import GENERATE_QUEUE, RedisClient
from workers.broker.live_workers import live_workers
from workers.broker.messages import GenerateJob, PassagesEvent
from workers.errors import ClaimLost, QueueUnavailable, unavailable
from workers.sessions import routing
from workers.sessions.record_texts import stored
from workers.sessions.streams import ANSWER_TTL_S, CLAIM_S, SESSION_TTL_S

__all__ = ["Queue", "QueueUnavailable"]


class Queue:
    """The way to the workers. Every method raises QueueUnavailable while Redis is away.

    Args:
        app: from `make_app`.
        client: from `make_redis`, for the same Redis.
        answer_ttl_s, session_ttl_s: lifetime of answers and sessions, in seconds.
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
        """Write the answer's record and its first event (the passages), then send the task.

        Args:
            claimed: the answer must have its session's next turn (`Sessions.claim`), and keeps it while it runs.

        Raises:
            ClaimLost: the turn belongs to another answer now.
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
            keys.session_texts(job.owner, job.session_id),
            keys.UNFINISHED,
        ]
        task = keys.answer_task(job.owner, job.answer_id)
        request, texts = stored(job, whole=not job.session_id)
        args = [
            self._answer_ttl_s,
            wire.dumps(PassagesEvent(passages=None)),  # the record has them
            time.time(),
            job.session_id,
            job.answer_id,
            self._session_ttl_s,
            CLAIM_S if claimed else "",
            root,
            max(self._answer_ttl_s, self._session_ttl_s),
            json.dumps(texts),
            task,
            *("request", request, "status", "queued", "streamed", 0),
        ]
        with unavailable():
            try:
                if lua.run(self._redis, lua.CREATE, names, args) == -1:
                    raise ClaimLost(job.session_id)
                queue = routing.home_queue(self._redis, job.owner, job.session_id or job.rewrites or "")
                arguments = [job.owner, job.answer_id]
                self._app.send_task(keys.GENERATE_TASK, arguments, task_id=job.answer_id, retry=False, queue=queue)
            except ClaimLost:
                raise
            except BaseException:
                names.append(keys.session_turns(job.owner, job.session_id))
                # no task was sent, so if Redis is away, what remains expires unread
                with contextlib.suppress(QueueUnavailable):
                    lua.run(self._redis, lua.FORGET, names, [job.session_id, job.answer_id, task])
                raise

    def cancel(self, owner: str, answer_id: str) -> bool:
        """Stop an answer; it ends as `cancelled` with the text so far. False if it has ended or is unknown."""
        with unavailable():
            status = self._redis.hget(keys.answer(owner, answer_id), "status")
            if status not in ("queued", "running"):
                return False
            self._redis.set(keys.answer_cancel(owner, answer_id), 1, ex=self._answer_ttl_s)
        return True

    def workers(self) -> list[dict[str, Any]]:
        """As `live_workers`."""
        with unavailable():
            return live_workers(self._redis)

    def depth(self) -> int:
        """Number of answers that no worker has taken yet."""
        with unavailable():
            return int(self._redis.llen(GENERATE_QUEUE)) + routing.waiting(self._redis)

    def ping(self) -> None:
        """Raises QueueUnavailable unless Redis answers."""
        with unavailable():
            self._redis.ping()
