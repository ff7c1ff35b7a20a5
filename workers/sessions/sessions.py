"""Sessions in Redis: their questions and answers in order, and the tokens of both (`token_log`).

Knows keys and turn records; knows no prompts and no engine. A session begins with its first question, and expires if
nothing is added to it for its lifetime.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TypedDict

from workers.broker import keys, lua
from workers.broker.app import RedisClient
from workers.broker.messages import TurnRecord
from workers.errors import QueueUnavailable, unavailable
from workers.sessions import erased
from workers.sessions.answer_store import erase_answers
from workers.sessions.feedback import erase_feedback
from workers.sessions.record_texts import read_turns
from workers.sessions.streams import SESSION_TTL_S
from workers.sessions.token_log import ID_BYTES, read_log

__all__ = ["QueueUnavailable", "SessionMemory", "SessionSummary", "Sessions"]


BUILD_S = 60
"""Seconds in which an answer that has its session's next turn must be enqueued."""


class SessionSummary(TypedDict):
    session_id: str
    created: float
    updated: float
    turns: int
    """Answers; each version that an edit made counts."""
    questions: int
    """Turns without edits. Edits that an earlier version stored count."""
    question: str
    """The first question; empty before the first answer."""


class SessionMemory(TypedDict):
    """A session's size in Redis."""

    tokens: int
    """Tokens of its prompt and last answer, as stored for its next turn."""
    epoch: int
    """How often that token log was restarted; 0 before the first answer."""
    ids_bytes: int
    """Size of the ids and their segments."""
    turns_bytes: int
    """Size of the texts of questions, answers and passages, each stored once."""
    answers_bytes: int
    """Size of its answers' records and events, which expire earlier."""


class Sessions:
    """The sessions of all tenants. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
        ttl_s: lifetime of a session after its last turn, in seconds.
    """

    def __init__(self, client: RedisClient, ttl_s: int = SESSION_TTL_S) -> None:
        self._redis = client
        self._ttl_s = ttl_s

    def turns(self, owner: str, session_id: str, tokenizer: str | None = None) -> list[TurnRecord]:
        """Its turns, oldest first; [] for a session without turns and for an unknown one.

        Answers have their generated ids. If the ids are lost, or from another tokenizer than `tokenizer` (its hash),
        answers have only their text.
        """
        with unavailable():
            texts = self._redis.lrange(keys.session_turns(owner, session_id), 0, -1)
            turns = read_turns(self._redis, owner, session_id, texts)
        if all(turn.segments[-1].ids is not None for turn in turns):
            return turns
        log = read_log(self._redis, owner, session_id)
        answers = log.answers() if log is not None and tokenizer in (None, log.tokenizer) else {}
        return [_with_ids(turn, answers) for turn in turns]

    def size(self, owner: str, session_id: str) -> int:
        """Stored tokens of its prompt and last answer; 0 for an unknown session."""
        with unavailable():
            return int(self._redis.strlen(keys.session_ids(owner, session_id))) // ID_BYTES

    def memory(self, owner: str, session_id: str) -> SessionMemory:
        """The session's size in Redis, as Redis counts it."""
        session = keys.session(owner, session_id)
        ids, parts = keys.session_ids(owner, session_id), keys.session_parts(owner, session_id)
        with unavailable():
            answers = [str(one) for one in self._redis.smembers(keys.session_answers(owner, session_id))]
            epoch = int(self._redis.hget(session, "epoch") or 0)
            groups = (
                [ids, parts],
                [
                    session,
                    keys.session_turns(owner, session_id),
                    keys.session_answers(owner, session_id),
                    keys.session_texts(owner, session_id),
                ],
                [name for one in answers for name in (keys.answer(owner, one), keys.answer_events(owner, one))],
            )
            with self._redis.pipeline(transaction=False) as pipe:
                for name in (name for group in groups for name in group):
                    pipe.memory_usage(name, samples=0)
                sizes = iter(pipe.execute())
        ids_bytes, turns_bytes, answers_bytes = (sum(int(next(sizes) or 0) for _ in group) for group in groups)
        return SessionMemory(
            tokens=self.size(owner, session_id),
            epoch=epoch,
            ids_bytes=ids_bytes,
            turns_bytes=turns_bytes,
            answers_bytes=answers_bytes,
        )

    def claim(self, owner: str, session_id: str, answer_id: str) -> str | None:
        """Claim the session's next turn for an answer. If another answer has it, return that answer's id.

        The claim lapses if the claimer dies before it enqueues the answer; a queued answer keeps the turn to its end.
        Claiming again for the same answer renews the claim.
        """
        names = [keys.session_claim(owner, session_id), keys.session_turns(owner, session_id)]
        holder = lua.run(self._redis, lua.CLAIM, names, [answer_id, BUILD_S])[0]
        return str(holder) if holder else None

    def release(self, owner: str, session_id: str, answer_id: str) -> None:
        """Give the next turn back, if this answer has it."""
        lua.run(self._redis, lua.RELEASE, [keys.session_claim(owner, session_id)], [answer_id])

    def versions(self, owner: str, root: str) -> list[str]:
        """Ids of an answer's versions in order; only its own if there are no others.

        Args:
            root: id of the first version.
        """
        with unavailable():
            return [str(one) for one in self._redis.lrange(keys.versions(owner, root), 0, -1)] or [root]

    def exists(self, owner: str, session_id: str) -> bool:
        """Whether the session has a question and has not expired."""
        with unavailable():
            return bool(self._redis.exists(keys.session(owner, session_id)))

    def list(self, owner: str, limit: int = 100, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the latest change first."""
        with unavailable():
            now = time.time()
            self._redis.zremrangebyscore(keys.sessions(owner), "-inf", now - self._ttl_s)
            ids = self._redis.zrange(keys.sessions(owner), offset, offset + limit - 1, desc=True)
            with self._redis.pipeline(transaction=False) as pipe:
                for session_id in ids:
                    pipe.hgetall(keys.session(owner, session_id))
                    pipe.llen(keys.session_turns(owner, session_id))
                    pipe.lindex(keys.session_turns(owner, session_id), 0)
                replies = pipe.execute()
        return [
            SessionSummary(
                session_id=session_id,
                created=float(fields["created"]),
                updated=float(fields["updated"]),
                turns=int(turns),
                questions=int(turns) - int(fields.get("edits", 0)),
                question=str(json.loads(first)["question"]) if first else "",
            )
            for session_id, fields, turns, first in zip(ids, replies[::3], replies[1::3], replies[2::3], strict=True)
            if fields
        ]

    def erase(self, owner: str, session_id: str) -> bool:
        """Erase the session and all its answers; a running one stops. False if there is no such session."""
        session = keys.session(owner, session_id)
        answers = keys.session_answers(owner, session_id)
        turns = keys.session_turns(owner, session_id)
        with unavailable():
            ids = self._redis.smembers(answers)
            erase_answers(self._redis, keys.tenant_of(owner), [str(answer_id) for answer_id in ids])
            with self._redis.pipeline(transaction=True) as pipe:
                pipe.exists(session)
                for answer_id in ids:
                    pipe.delete(
                        keys.answer(owner, answer_id),
                        keys.answer_events(owner, answer_id),
                        keys.answer_cancel(owner, answer_id),
                        keys.versions(owner, answer_id),
                    )
                pipe.delete(session, answers, turns, keys.session_claim(owner, session_id))
                pipe.delete(keys.session_ids(owner, session_id), keys.session_parts(owner, session_id))
                pipe.delete(keys.session_texts(owner, session_id))
                pipe.zrem(keys.sessions(owner), session_id)
                existed = pipe.execute()[0]
        erase_feedback(self._redis, owner, [str(answer_id) for answer_id in ids])
        if existed:
            erased.note(self._redis)
        return bool(existed)

    def erase_all(self, owner: str) -> int:
        """Erase an owner's sessions, answers outside sessions and rewritten questions; what runs stops.

        Returns the number of sessions. It reads the names of all keys, so it takes a while in a large Redis.
        """
        with unavailable():
            sessions = {str(one) for one in self._redis.zrange(keys.sessions(owner), 0, -1)}
            sessions |= self._named(keys.session(owner, "*"))
        number = sum(self.erase(owner, session_id) for session_id in sessions)
        with unavailable():
            answers = self._named(keys.answer(owner, "*"))
            erase_answers(self._redis, keys.tenant_of(owner), answers)
            for pattern in (keys.answer(owner, "*"), keys.rewrite(owner, "*")):
                for name in self._redis.scan_iter(match=pattern, count=1000):
                    self._redis.delete(name)
            erase_feedback(self._redis, owner, list(self._named(keys.feedback(owner, "*"))))
            self._redis.delete(keys.sessions(owner))
        erased.note(self._redis)
        return number

    def _named(self, pattern: str) -> set[str]:
        """The fourth part of the keys of a pattern: ids of sessions or answers."""
        return {str(key).split(":")[3] for key in self._redis.scan_iter(match=pattern, count=1000)}


def _with_ids(turn: TurnRecord, answers: Mapping[str, Sequence[int]]) -> TurnRecord:
    """The turn with its answer's ids, if `answers` has them."""
    *prompt, answer = turn.segments
    if answer.ids is not None or answer.key not in answers:
        return turn
    filled = answer.model_copy(update={"ids": list(answers[answer.key])})
    return turn.model_copy(update={"segments": [*prompt, filled]})
