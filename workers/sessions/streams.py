"""One Redis stream per answer, and the answer's record.

Knows keys, entry ids and what a writer may add; knows no tokens, no engine and no HTTP. Writing is idempotent: the
stream rejects ids that it already has, and everything from a worker whose answer another worker took over (the answer
then has a later epoch). So nothing can appear twice.

Next, in the API: `AnswerReader.events` (`rag_service/answering/answer_reader.py`).
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
    PassagesEvent,
    RestartEvent,
    TokenEvent,
    TurnRecord,
)
from workers.broker.progress import JobStatus
from workers.errors import AnswerEnded, AnswerMissing, AnswerTaken, QueueUnavailable, StreamAhead, unavailable
from workers.sessions import costs
from workers.sessions.costs import Cost
from workers.sessions.record_texts import aread_job, read_job, stored
from workers.sessions.token_log import SessionLog

__all__ = [
    "ANSWER_TTL_S",
    "AnswerEnded",
    "AnswerMissing",
    "AnswerRecord",
    "AnswerStream",
    "AnswerTaken",
    "QueueUnavailable",
    "StreamAhead",
]

ANSWER_TTL_S = 24 * 3600
SESSION_TTL_S = 30 * 24 * 3600
CLAIM_S = 900
"""Seconds for which a silent queued or running answer keeps its session's next turn: longer than it waits in a queue
and than its prompt takes, so that only a lost answer loses the turn."""
BLOCK_MS = 400
"""Longest single blocking read; below the client's socket timeout."""

Entries = list[tuple[str, AnswerEvent]]
"""Events with their entry ids."""

_ERRORS = {"missing": AnswerMissing, "ended": AnswerEnded, "taken": AnswerTaken}
_ENTRY_ID = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")


class AnswerRecord(TypedDict):
    """An answer's record. `result` and `error` are None until the answer ended that way.

    `lost`: number of workers that vanished before they ended the answer.
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
        owner, answer_id: those of the answer; an owner is a tenant or `tenant@person`.
        asynchronous: from `make_async_redis`; only `aread`, `arecord` and `aforget` need it.
        ttl_s: lifetime of a finished answer, in seconds.
        session_ttl_s: lifetime of a session after its last turn, in seconds.
        worker: name of the writing worker, which the session's next answer prefers. "" for none.
        usage_days: days for which the tokens that a tenant's answers cost are kept; 0 keeps only those of all tenants.

    Every method raises QueueUnavailable while Redis is away.
    """

    def __init__(
        self,
        client: RedisClient | None,
        owner: str,
        answer_id: str,
        asynchronous: AsyncRedisClient | None = None,
        *,
        ttl_s: int = ANSWER_TTL_S,
        session_ttl_s: int = SESSION_TTL_S,
        worker: str = "",
        usage_days: int = costs.DAYS,
    ) -> None:
        self._redis: Any = client
        self._async: Any = asynchronous
        self.owner = owner
        self.answer_id = answer_id
        self._record = keys.answer(owner, answer_id)
        self._events = keys.answer_events(owner, answer_id)
        self._cancel = keys.answer_cancel(owner, answer_id)
        self._claim = keys.session_claim(owner, "")
        self._ttl_s = ttl_s
        self._session_ttl_s = session_ttl_s
        self._worker = worker
        self._usage_days = usage_days
        self._epoch = ""
        """Epoch of this writer; "" if it did not start the answer: then no write is rejected."""

    def start(self, session_id: str = "") -> tuple[JobStatus, int]:
        """Mark a queued answer as running, or take a running one over from its previous writer.

        Returns its status and how many ids the stream already has. From then on earlier writers are rejected, and every
        write renews the claim on the session's next turn, if the answer has it.

        Raises:
            AnswerMissing: there is no record.
        """
        self._claim = keys.session_claim(self.owner, session_id)
        names = [self._record, self._claim, keys.session(self.owner, session_id)]
        reply = lua.run(self._redis, lua.START, names, [self.answer_id, CLAIM_S, self._worker])
        if reply is None:
            raise AnswerMissing(self.answer_id)
        self._epoch = str(reply[2])
        return reply[0], int(reply[1])

    def streamed(self) -> list[TokenEvent]:
        """The token events in the stream, in order; of an answer that started again, those since then."""
        events = [event for _, event in self.read()]
        starts = [n for n, event in enumerate(events) if isinstance(event, RestartEvent)]
        return [event for event in events[starts[-1] if starts else 0 :] if isinstance(event, TokenEvent)]

    def restart(self, reason: str) -> None:
        """Start the answer again: its next token event has `t` 0, and clients drop what they have of it.

        Raises:
            AnswerMissing, AnswerEnded, AnswerTaken: as `write`.
        """
        args = [wire.dumps(RestartEvent(reason=reason)), self._epoch]
        reply = lua.run(self._redis, lua.RESTART, [self._record, self._events], args)
        if reply[0] in _ERRORS:
            raise _ERRORS[reply[0]](self.answer_id)

    def write(self, event: AnswerEvent) -> str:
        """Append an event to a running answer and return its entry id.

        Raises:
            AnswerMissing: there is no record.
            AnswerEnded: the answer has its last event.
            AnswerTaken: another worker took the answer over.
            StreamAhead: the `t` of a token event is not the number of ids in the stream.
        """
        t, count = (event.t, len(event.ids)) if isinstance(event, TokenEvent) else ("", 0)
        names = [self._record, self._events, self._claim]
        args = [wire.dumps(event), t, count, self.answer_id, CLAIM_S, self._epoch]
        reply = lua.run(self._redis, lua.WRITE, names, args)
        if reply[0] in _ERRORS:
            raise _ERRORS[reply[0]](self.answer_id)
        if reply[0] == "ahead":
            raise StreamAhead(int(reply[1]))
        return str(reply[1])

    def finish(
        self,
        event: DoneEvent | ErrorEvent,
        *,
        pending: TokenEvent | None = None,
        session_id: str = "",
        turn: TurnRecord | None = None,
        turns_before: int | None = None,
        log: SessionLog | None = None,
        cost: Cost | None = None,
    ) -> bool:
        """End the answer: last events, record, session turn and costs change at once. A second end changes nothing.

        Args:
            event: the result or the error.
            pending: text without ids that became final only now.
            session_id, turn: append the turn, if any, to this session; its next turn is free from then on.
            turns_before: append only if the session has this many turns.
            log: the turn's prompt and answer, stored with the turn.
            cost: what the answer cost, added to that of its tenant.

        Returns whether the turn, if any, is part of the session.

        Raises:
            AnswerMissing: there is no record.
            AnswerTaken: another worker took the answer over.
        """
        names = [
            self._record,
            self._events,
            self._cancel,
            keys.session(self.owner, session_id),
            keys.session_turns(self.owner, session_id),
            keys.session_answers(self.owner, session_id),
            keys.sessions(self.owner),
            keys.session_claim(self.owner, session_id),
            keys.session_ids(self.owner, session_id),
            keys.session_parts(self.owner, session_id),
            keys.session_texts(self.owner, session_id),
            keys.UNFINISHED,
            keys.usage(keys.tenant_of(self.owner), costs.today().isoformat()),
            keys.USAGE_TENANTS,
            keys.USAGE_TOTALS,
        ]
        text, texts = stored(turn) if turn is not None else ("", {})
        args = [
            _status(event),
            "result" if isinstance(event, DoneEvent) else "error",
            wire.dumps(event),
            wire.dumps(pending) if pending is not None else "",
            self._ttl_s,
            text,
            "" if turns_before is None else turns_before,
            self._session_ttl_s,
            session_id,
            time.time(),
            self.answer_id,
            self._epoch,
            json.dumps(texts),
            keys.answer_task(self.owner, self.answer_id),
            json.dumps([] if cost is None else cost.increments()),
            self._usage_days * 24 * 3600,
            keys.tenant_of(self.owner),
            *(log.arguments() if log is not None and turn is not None else [""]),
        ]
        reply = lua.run(self._redis, lua.FINISH, names, args)
        if reply in ("missing", "taken"):
            raise _ERRORS[reply](self.answer_id)
        return bool(reply != "detached")

    def read(self, after: str = "0-0", block_ms: int = 0, count: int | None = None) -> Entries:
        """Events after an entry id, oldest first; waits up to `block_ms` for the first one. [] if there are none.

        Events of types that this version does not know are skipped.

        Raises:
            ValueError: `after` is not an entry id.
        """
        _check_entry_id(after)
        deadline = time.monotonic() + block_ms / 1000
        while True:
            with unavailable():
                reply = self._redis.xread({self._events: after}, count=count, block=_block(deadline))
            entries, last = _entries(reply)
            if entries or (last is None and time.monotonic() >= deadline):
                break
            after = last or after
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
            entries, last = _entries(reply)
            if entries or (last is None and time.monotonic() >= deadline):
                break
            after = last or after
            await asyncio.sleep(0)
        if _lacks_passages(entries):
            return _with_passages(entries, await self.arecord())
        return entries

    def record(self) -> AnswerRecord | None:
        """The answer's record; None if it does not exist (any more)."""
        with unavailable():
            fields = self._redis.hgetall(self._record)
            job = read_job(self._redis, self.owner, fields["request"]) if fields else None
        return None if job is None else self._parse(fields, job)

    async def arecord(self) -> AnswerRecord | None:
        """`record` for asyncio."""
        with unavailable():
            fields = await self._async.hgetall(self._record)
            job = await aread_job(self._async, self.owner, fields["request"]) if fields else None
        return None if job is None else self._parse(fields, job)

    async def aforget(self) -> None:
        """Delete everything of the answer; a running one stops at its next write."""
        with unavailable():
            await self._async.delete(self._record, self._events, self._cancel)
            await self._async.srem(keys.UNFINISHED, keys.answer_task(self.owner, self.answer_id))

    def forget(self) -> None:
        """`aforget` without asyncio."""
        with unavailable():
            self._redis.delete(self._record, self._events, self._cancel)
            self._redis.srem(keys.UNFINISHED, keys.answer_task(self.owner, self.answer_id))

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
    """Entries with the passages of the answer's record in the passages event; [] if the answer was erased."""
    if record is None:
        return []
    filled = PassagesEvent(passages=record["passages"])
    return [(entry_id, filled if isinstance(event, PassagesEvent) else event) for entry_id, event in entries]


def _status(event: DoneEvent | ErrorEvent) -> JobStatus:
    if isinstance(event, ErrorEvent):
        return "failed"
    return "cancelled" if event.finish_reason == "cancelled" else "succeeded"


def _check_entry_id(after: str) -> None:
    if not _ENTRY_ID.fullmatch(after) or any(int(part) >= 2**64 for part in after.split("-")):
        raise ValueError(f"{after!r} is not an event id; pass the id of an event of this answer, or 0-0 for all")


def _block(deadline: float) -> int | None:
    remaining_ms = int(1000 * (deadline - time.monotonic()))
    return min(remaining_ms, BLOCK_MS) if remaining_ms > 0 else None


def _entries(reply: Any) -> tuple[Entries, str | None]:
    """The events of known types, and the last entry id of any event; None if there is none."""
    streams = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply or ()]
    read = [(entry_id, wire.load_event(fields["event"])) for entries in streams for entry_id, fields in entries]
    return [(entry_id, event) for entry_id, event in read if event is not None], read[-1][0] if read else None
