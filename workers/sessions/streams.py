"""One Redis Stream per answer, and the answer's record beside it.

Knows keys, entry ids and what a writer may add; knows no tokens, no engine and no HTTP. Writing is idempotent: ids that
the stream already holds are refused, and so is all that a worker writes after another one went on with the answer (its
epoch is a later one then): nothing can appear twice.

Next, in the API: `events` (`rag_service/api/sse.py`).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any, TypedDict

from workers.broker import keys, lua, wire
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.broker.messages import (
    AnswerEvent,
    DoneEvent,
    ErrorEvent,
    GenerateJob,
    JobStatus,
    PassagesEvent,
    TokenEvent,
    TurnRecord,
)
from workers.errors import AnswerEnded, AnswerGone, AnswerTaken, QueueUnavailable, StreamAhead, unavailable
from workers.sessions.texts import aread_job, read_job, stored
from workers.sessions.token_log import SessionLog

__all__ = [
    "ANSWER_TTL_S",
    "AnswerEnded",
    "AnswerGone",
    "AnswerRecord",
    "AnswerStream",
    "AnswerTaken",
    "QueueUnavailable",
    "StreamAhead",
]

ANSWER_TTL_S = 24 * 3600
SESSION_TTL_S = 30 * 24 * 3600
CLAIM_S = 900
"""Seconds for which a queued or running answer keeps its session's next turn after it was last heard of: longer than
it waits in a queue and than its prompt takes, so that only an answer that was lost gives it up."""
BLOCK_MS = 400
"""Longest single blocking read; below the client's socket timeout."""

Entries = list[tuple[str, AnswerEvent]]
"""Events behind their entry ids."""

_ENTRY_ID = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")


class AnswerRecord(TypedDict):
    """What is kept of an answer. `result` and `error` are None until it ended that way.

    `lost`: workers that were gone before they had ended it.
    """

    answer_id: str
    status: JobStatus
    question: str
    collection: str | None
    session_id: str
    passages: list[dict[str, Any]]
    seed: int
    speculation: dict[str, Any]
    created: float
    streamed: int
    lost: int
    result: DoneEvent | None
    error: ErrorEvent | None
    job: GenerateJob


class AnswerStream:
    """The events of one answer.

    Args:
        client: from `make_redis`.
        tenant, answer_id: whose answer.
        asynchronous: from `make_async_redis`; needed by `aread` and `arecord` alone.
        ttl_s: seconds for which a finished answer is kept.
        session_ttl_s: seconds for which a session is kept after its last turn.
        worker: whoever writes; the session's next answer prefers it. "" for none.

    Every method raises QueueUnavailable while Redis is away.
    """

    def __init__(
        self,
        client: RedisClient | None,
        tenant: str,
        answer_id: str,
        asynchronous: AsyncRedisClient | None = None,
        *,
        ttl_s: int = ANSWER_TTL_S,
        session_ttl_s: int = SESSION_TTL_S,
        worker: str = "",
    ) -> None:
        self._redis: Any = client
        self._async: Any = asynchronous
        self.tenant = tenant
        self.answer_id = answer_id
        self._record = keys.answer(tenant, answer_id)
        self._events = keys.answer_events(tenant, answer_id)
        self._cancel = keys.answer_cancel(tenant, answer_id)
        self._claim = keys.session_claim(tenant, "")
        self._ttl_s = ttl_s
        self._session_ttl_s = session_ttl_s
        self._worker = worker
        self._epoch = ""
        """Of the worker that writes; "" for one that did not start the answer, which is refused nothing."""

    def start(self, session_id: str = "") -> tuple[JobStatus, int]:
        """Mark a queued answer as running, or go on with a running one in the place of whoever wrote it before.

        Returns its status and how many ids the stream already holds. From then on what others who started it write is
        refused, and every write keeps the claim on the session's next turn alive, if the answer has it.

        Raises:
            AnswerGone: there is no record.
        """
        self._claim = keys.session_claim(self.tenant, session_id)
        with unavailable():
            names = [self._record, self._claim, keys.session(self.tenant, session_id)]
            reply = lua.run(self._redis, lua.START, names, [self.answer_id, CLAIM_S, self._worker])
        if reply is None:
            raise AnswerGone(self.answer_id)
        self._epoch = str(reply[2])
        return reply[0], int(reply[1])

    def streamed(self) -> list[TokenEvent]:
        """The token events that the stream holds, in order."""
        return [event for _, event in self.read() if isinstance(event, TokenEvent)]

    def write(self, event: AnswerEvent) -> str:
        """Append an event to a running answer and return its entry id.

        Raises:
            AnswerGone: there is no record.
            AnswerEnded: the answer has its last event.
            AnswerTaken: another worker started it since.
            StreamAhead: a token event whose `t` is not the number of ids the stream holds.
        """
        t, count = (event.t, len(event.ids)) if isinstance(event, TokenEvent) else ("", 0)
        with unavailable():
            reply = lua.run(
                self._redis,
                lua.WRITE,
                [self._record, self._events, self._claim],
                [wire.dumps(event), t, count, self.answer_id, CLAIM_S, self._epoch],
            )
        if reply[0] == "gone":
            raise AnswerGone(self.answer_id)
        if reply[0] == "ended":
            raise AnswerEnded(self.answer_id)
        if reply[0] == "taken":
            raise AnswerTaken(self.answer_id)
        if reply[0] == "ahead":
            raise StreamAhead(int(reply[1]))
        return str(reply[1])

    def finish(
        self,
        event: DoneEvent | ErrorEvent,
        *,
        held_back: TokenEvent | None = None,
        session_id: str = "",
        turn: TurnRecord | None = None,
        turns_before: int | None = None,
        log: SessionLog | None = None,
    ) -> bool:
        """End the answer: last events, record and session turn change at once. A second end changes nothing.

        Args:
            event: the result, or what went wrong.
            held_back: text without ids that became final only now.
            session_id, turn: appended to this session, if given; its next turn is free from then on.
            turns_before: append only while the session has this many turns.
            log: the turn's prompt and answer, kept with the turn.

        Returns whether the turn, if any, is part of the session.

        Raises:
            AnswerGone: there is no record.
            AnswerTaken: another worker started it since.
        """
        names = [self._record, self._events, self._cancel]
        names += [
            keys.session(self.tenant, session_id),
            keys.session_turns(self.tenant, session_id),
            keys.session_answers(self.tenant, session_id),
            keys.sessions(self.tenant),
            keys.session_claim(self.tenant, session_id),
            keys.session_ids(self.tenant, session_id),
            keys.session_parts(self.tenant, session_id),
            keys.session_texts(self.tenant, session_id),
            keys.UNFINISHED,
        ]
        text, texts = stored(turn) if turn is not None else ("", {})
        args: list[str | int | float | bytes] = [
            _status(event),
            "result" if isinstance(event, DoneEvent) else "error",
            wire.dumps(event),
            wire.dumps(held_back) if held_back is not None else "",
            self._ttl_s,
            text,
            "" if turns_before is None else turns_before,
            self._session_ttl_s,
            session_id,
            time.time(),
            self.answer_id,
            self._epoch,
            json.dumps(texts),
            keys.answer_task(self.tenant, self.answer_id),
            *(log.arguments() if log is not None and turn is not None else [""]),
        ]
        with unavailable():
            reply = lua.run(self._redis, lua.FINISH, names, args)
        if reply == "gone":
            raise AnswerGone(self.answer_id)
        if reply == "taken":
            raise AnswerTaken(self.answer_id)
        return bool(reply != "apart")

    def read(self, after: str = "0-0", block_ms: int = 0, count: int | None = None) -> Entries:
        """Events after an entry id, oldest first; waits up to `block_ms` for the first. [] if there are none.

        Raises:
            ValueError: `after` is not an entry id.
        """
        _check_entry_id(after)
        deadline = time.monotonic() + block_ms / 1000
        while True:
            with unavailable():
                reply = self._redis.xread({self._events: after}, count=count, block=_block(deadline))
            if reply or time.monotonic() >= deadline:
                break
        entries = _entries(reply)
        if _lacks_passages(entries):
            return _with_passages(entries, self.record())
        return entries

    async def aread(self, after: str = "0-0", block_ms: int = 0, count: int | None = None) -> Entries:
        """`read` for asyncio."""
        _check_entry_id(after)
        deadline = time.monotonic() + block_ms / 1000
        while True:
            with unavailable():
                reply = await self._async.xread({self._events: after}, count=count, block=_block(deadline))
            if reply or time.monotonic() >= deadline:
                break
            await asyncio.sleep(0)
        entries = _entries(reply)
        if _lacks_passages(entries):
            return _with_passages(entries, await self.arecord())
        return entries

    def record(self) -> AnswerRecord | None:
        """The answer's record; None if it is not kept (any more)."""
        with unavailable():
            fields = self._redis.hgetall(self._record)
            job = read_job(self._redis, self.tenant, fields["request"]) if fields else None
        return None if job is None else self._parse(fields, job)

    async def arecord(self) -> AnswerRecord | None:
        """`record` for asyncio."""
        with unavailable():
            fields = await self._async.hgetall(self._record)
            job = await aread_job(self._async, self.tenant, fields["request"]) if fields else None
        return None if job is None else self._parse(fields, job)

    async def aforget(self) -> None:
        """Delete all that is kept of the answer; one that is running stops at its next write."""
        with unavailable():
            await self._async.delete(self._record, self._events, self._cancel)
            await self._async.srem(keys.UNFINISHED, keys.answer_task(self.tenant, self.answer_id))

    def forget(self) -> None:
        """`aforget`, not asynchronous."""
        with unavailable():
            self._redis.delete(self._record, self._events, self._cancel)
            self._redis.srem(keys.UNFINISHED, keys.answer_task(self.tenant, self.answer_id))

    def _parse(self, fields: dict[str, str], job: GenerateJob) -> AnswerRecord:
        return AnswerRecord(
            answer_id=job.answer_id,
            status=fields["status"],  # type: ignore[typeddict-item]
            question=job.question,
            collection=job.collection,
            session_id=job.session_id,
            passages=job.passages,
            seed=job.sampling.seed,
            speculation=job.speculation.model_dump(),
            created=job.created,
            streamed=int(fields.get("streamed", 0)),
            lost=int(fields.get("lost", 0)),
            result=wire.loads(DoneEvent, fields["result"]) if "result" in fields else None,
            error=wire.loads(ErrorEvent, fields["error"]) if "error" in fields else None,
            job=job,
        )


def _lacks_passages(entries: Entries) -> bool:
    return any(isinstance(event, PassagesEvent) and event.passages is None for _, event in entries)


def _with_passages(entries: Entries, record: AnswerRecord | None) -> Entries:
    """The passages of the answer's record in the event that tells them; no events where the answer was erased."""
    if record is None:
        return []
    told = PassagesEvent(passages=record["passages"])
    return [(entry_id, told if isinstance(event, PassagesEvent) else event) for entry_id, event in entries]


def _status(event: DoneEvent | ErrorEvent) -> JobStatus:
    if isinstance(event, ErrorEvent):
        return "failed"
    return "cancelled" if event.finish_reason == "cancelled" else "succeeded"


def _check_entry_id(after: str) -> None:
    if not _ENTRY_ID.fullmatch(after) or any(int(part) >= 2**64 for part in after.split("-")):
        raise ValueError(f"{after!r} is not an event id; pass the id of an event of this answer, or 0-0 for all")


def _block(deadline: float) -> int | None:
    left = int(1000 * (deadline - time.monotonic()))
    return min(left, BLOCK_MS) if left > 0 else None


def _entries(reply: Any) -> Entries:
    if not reply:
        return []
    streams = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply]
    return [(entry_id, wire.load_event(fields["event"])) for entries in streams for entry_id, fields in entries]
