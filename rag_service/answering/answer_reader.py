"""An answer as it stands: its record, events as they come, result, versions, feedback, and its cancellation.

Knows what is kept of answers in Redis; knows no prompts and no HTTP.

Next: `events` (`rag_service/api/sse.py`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import anyio

from rag_service.access.principal import Principal
from rag_service.answering import answers, feedback
from rag_service.answering.outdated import Documents, changed_passages
from rag_service.answering.place import Place
from rag_service.contract.answer import Answer, Version
from rag_service.contract.feedback import FeedbackOut, FeedbackRequest
from rag_service.contract.ids import no_feedback, unknown_answer
from rag_service.errors import Unavailable
from rag_service.prompting import edits
from rag_service.setting_sections import Answers
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.broker.messages import AnswerEvent, DoneEvent, ErrorEvent, PassagesEvent, WaitingEvent
from workers.errors import AnswerMissing
from workers.sessions.feedback import FeedbackStore
from workers.sessions.queue import Queue
from workers.sessions.renames import Renames
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerRecord, AnswerStream
from workers.tokens.tokenizer import Tokens

POLL_MS = 400
"""Longest wait for one read of a stream."""


class AnswerReader:
    """The answers of one owner. `documents`: those that their passages are from."""

    def __init__(
        self,
        principal: Principal,
        settings: Answers,
        tokens: Tokens,
        queue: Queue,
        sessions: Sessions,
        redis: RedisClient,
        async_redis: AsyncRedisClient,
        renames: Renames,
        documents: Documents,
    ) -> None:
        self._principal = principal
        self._owner = principal.owner
        self._settings = settings
        self._tokens = tokens
        self._queue = queue
        self._sessions = sessions
        self._redis = redis
        self._async_redis = async_redis
        self._renames = renames
        self._documents = documents
        self._feedback = FeedbackStore(redis, settings.session_ttl)

    def stream(self, answer_id: str) -> AnswerStream:
        return AnswerStream(self._redis, self._owner, answer_id, self._async_redis)

    async def record(self, answer_id: str) -> AnswerRecord:
        """What is kept of an answer, with the names that collections have now.

        Raises:
            NotFound: nothing (any more).
        """
        record = await self.stream(answer_id).arecord()
        if record is None:
            raise unknown_answer(answer_id)
        return (await self._renames.anames(self._principal.tenant, self._principal.sees)).record(record)

    async def events(
        self, answer_id: str, after: str = "0-0", *, tell_place: bool = False
    ) -> AsyncIterator[tuple[str, AnswerEvent] | None]:
        """Events after an entry id as they come, up to the last one; None after each stretch of silence.

        Args:
            tell_place: also yield a `WaitingEvent` with the entry id "" when the number of answers changes that come
                first, as long as no worker has taken this one.

        Raises:
            NotFound: the answer is not kept (any more).
        """
        stream = self.stream(answer_id)
        place = Place(self._async_redis, self._owner, answer_id) if tell_place else None
        silent_since = time.monotonic()
        while True:
            entries = await stream.aread(after, POLL_MS)
            for entry_id, event in entries:
                after = entry_id
                if not isinstance(event, PassagesEvent):  # of a worker
                    place = None
                yield entry_id, event
                if isinstance(event, DoneEvent | ErrorEvent):
                    return
            if place is not None and not entries and (ahead := await place.changed()) is not None:
                yield "", WaitingEvent(answers=ahead)
            if entries:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since >= self._settings.heartbeat:
                silent_since = time.monotonic()
                if await stream.arecord() is None:
                    raise unknown_answer(answer_id)
                yield None

    async def waiting_events(self, answer_id: str, after: str) -> bool:
        """Whether there are events after an entry id. Raises ValueError if `after` is not an entry id."""
        return bool(await self.stream(answer_id).aread(after, count=1))

    async def result(self, answer_id: str, token_ids: bool = False, prompt: bool = False) -> Answer:
        """The answer in its present state; with its token ids and its prompt where asked for.

        Raises:
            NotFound: it is not kept (any more).
        """
        record = await self.record(answer_id)

        def present() -> Answer:
            changed = changed_passages(self._documents, record["passages"])
            return answers.present(record, self._tokens, self._settings, token_ids, prompt, changed)

        return await anyio.to_thread.run_sync(present)

    async def finished(self, answer_id: str) -> Answer:
        """Wait for the end of an answer.

        Raises:
            Unavailable: it takes longer than the settings allow; it runs on, and can be read later.
        """
        with anyio.move_on_after(self._settings.timeout) as waiting:
            async for _ in self.events(answer_id):
                pass
        if waiting.cancelled_caught:
            raise Unavailable(
                f"The answer is not ready after {self._settings.timeout:g} s. It is not lost: read it at "
                f"/v1/answers/{answer_id}, or follow /v1/answers/{answer_id}/events.",
                "answer_timeout",
                retry_after=10,
                answer_id=answer_id,
            )
        return await self.result(answer_id)

    async def cancel(self, answer_id: str) -> bool:
        """Ask for an answer to stop; False if it ended already.

        Raises:
            NotFound: it is not kept (any more).
        """
        await self.record(answer_id)
        return await anyio.to_thread.run_sync(self._queue.cancel, self._owner, answer_id)

    async def versions(self, answer_id: str) -> list[Version]:
        """The versions of an answer that are kept, the first one first; any of them may be asked with.

        Raises:
            NotFound: the answer is not kept (any more).
        """
        root = edits.root(await self.record(answer_id))
        ids = await anyio.to_thread.run_sync(self._sessions.versions, self._owner, root)
        records = [await self.stream(one).arecord() for one in ids]
        return [answers.version(record) for record in records if record is not None]

    async def rate(self, answer_id: str, request: FeedbackRequest) -> FeedbackOut:
        """Keep feedback on an answer.

        Raises:
            NotFound: the answer is not kept (any more).
            Conflict: it is not finished.
        """
        given = feedback.feedback_on(await self.result(answer_id), request)
        try:
            await anyio.to_thread.run_sync(self._feedback.give, self._owner, given)
        except AnswerMissing:
            raise unknown_answer(answer_id) from None
        return feedback.shown(given)

    async def feedback(self, answer_id: str) -> FeedbackOut:
        """The feedback on an answer.

        Raises:
            NotFound: there is none.
        """
        given = await anyio.to_thread.run_sync(self._feedback.of, self._owner, answer_id)
        if given is None:
            raise no_feedback(answer_id)
        return feedback.shown(given)

    def feedback_of(self, answer_ids: list[str]) -> dict[str, FeedbackOut]:
        """The feedback on those answers that have any, by their ids."""
        given = self._feedback.of_several(self._owner, answer_ids)
        return {answer_id: feedback.shown(one) for answer_id, one in given.items()}

    async def withdraw_feedback(self, answer_id: str) -> None:
        """Erase the feedback on an answer.

        Raises:
            NotFound: there is none.
        """
        if not await anyio.to_thread.run_sync(self._feedback.withdraw, self._owner, answer_id):
            raise no_feedback(answer_id)
