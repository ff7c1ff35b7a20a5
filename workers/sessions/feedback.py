"""What people say of their answers, kept with the question and the answer, so that it outlives the answer's record.

Knows Redis and records; knows no engine and no HTTP. Feedback belongs to its answer's owner and is erased with the
answer's session. Only the operator reads that of others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Literal, TypedDict

from workers.broker import keys, lua
from workers.broker.app import RedisClient
from workers.errors import AnswerMissing, unavailable
from workers.sessions import erased
from workers.sessions.streams import SESSION_TTL_S

BATCH = 500
"""Feedback read at once."""

Rating = Literal["up", "down"]


class FeedbackPassage(TypedDict):
    """A passage that the model got."""

    collection: str
    document_id: str
    chunk_id: str
    title: str


class Feedback(TypedDict):
    """A rating, and what was rated.

    `created` is in seconds since 1970. `support` is the answer's, None where it has none.
    """

    answer_id: str
    session_id: str
    rating: Rating
    comment: str
    created: float
    question: str
    instruction: str | None
    answer: str
    collection: str | None
    passages: list[FeedbackPassage]
    seed: int
    finish_reason: str | None
    support: float | None


class OwnedFeedback(Feedback):
    """Feedback, and whose it is. `person` is "" for a key without a person."""

    tenant: str
    person: str


class FeedbackStore:
    """The feedback of all owners. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
        ttl_s: seconds for which feedback is kept.
    """

    def __init__(self, client: RedisClient, ttl_s: int = SESSION_TTL_S) -> None:
        self._redis: Any = client
        self._ttl_s = ttl_s

    def give(self, owner: str, feedback: Feedback) -> None:
        """Keep feedback on an answer; it replaces earlier feedback on the same answer.

        Raises:
            AnswerMissing: the answer was erased meanwhile, so nothing is kept.
        """
        answer_id = feedback["answer_id"]
        names = [keys.answer(owner, answer_id), keys.feedback(owner, answer_id), keys.FEEDBACK]
        member, expires = keys.feedback_member(owner, answer_id), time.time() + self._ttl_s
        text = json.dumps(feedback, ensure_ascii=False)
        if not lua.run(self._redis, lua.GIVE_FEEDBACK, names, [text, self._ttl_s, member, expires]):
            raise AnswerMissing(answer_id)

    def of(self, owner: str, answer_id: str) -> Feedback | None:
        """The feedback on an answer."""
        with unavailable():
            text = self._redis.get(keys.feedback(owner, answer_id))
        return json.loads(text) if text else None

    def of_several(self, owner: str, answer_ids: list[str]) -> dict[str, Feedback]:
        """The feedback on those answers that have any, by their ids."""
        if not answer_ids:
            return {}
        with unavailable():
            texts = self._redis.mget([keys.feedback(owner, answer_id) for answer_id in answer_ids])
        return {one: json.loads(text) for one, text in zip(answer_ids, texts, strict=True) if text}

    def withdraw(self, owner: str, answer_id: str) -> bool:
        """Erase the feedback on an answer. False if there is none."""
        with unavailable():
            self._redis.zrem(keys.FEEDBACK, keys.feedback_member(owner, answer_id))
            removed = bool(self._redis.delete(keys.feedback(owner, answer_id)))
        if removed:
            erased.note(self._redis)
        return removed

    def all(self) -> Iterator[OwnedFeedback]:
        """The feedback of all owners, the latest first."""
        with unavailable():
            self._redis.zremrangebyscore(keys.FEEDBACK, "-inf", time.time())
            members = [str(one) for one in self._redis.zrange(keys.FEEDBACK, 0, -1, desc=True)]
        for start in range(0, len(members), BATCH):
            owned = [member.split(" ", 1) for member in members[start : start + BATCH]]
            with unavailable():
                texts = self._redis.mget([keys.feedback(owner, answer_id) for owner, answer_id in owned])
            for (owner, _), text in zip(owned, texts, strict=True):
                if text:
                    feedback: Feedback = json.loads(text)
                    tenant, _, person = owner.partition("@")
                    yield {**feedback, "tenant": tenant, "person": person}


def erase_feedback(client: RedisClient, owner: str, answer_ids: list[str]) -> None:
    """Delete the feedback on answers. Raises QueueUnavailable while Redis is away."""
    if not answer_ids:
        return
    with unavailable():
        client.zrem(keys.FEEDBACK, *(keys.feedback_member(owner, one) for one in answer_ids))
        client.delete(*(keys.feedback(owner, one) for one in answer_ids))
