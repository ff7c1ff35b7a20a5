"""Rewrites follow-ups with the target model, through the workers' queue, within a time limit.

Whatever goes wrong, the question itself is used. The job is greedy and strict and takes the service's own drafter, so
that what a request says of sampling or speculation never changes what is looked for. It belongs to no session: it is
routed and its rows are kept apart from the session's, and its record is deleted as soon as it is read.

Knows prompts, the queue and patience; knows no passages and no HTTP.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio
import anyio.to_thread

from rag_service.access.principal import Principal
from rag_service.prompting import standalone as rewrite
from rag_service.prompting.follow_up import needs_rewriting
from rag_service.prompting.jobs import NO_TURN, make_job
from rag_service.prompting.prompt import Prompt
from rag_service.prompting.standalone import Exchange
from rag_service.settings import Settings
from workers.broker.app import AsyncRedisClient
from workers.broker.messages import DoneEvent, ErrorEvent, GenerateJob, Sampling, Segment, Speculation
from workers.errors import QueueUnavailable
from workers.sessions.queue import Queue
from workers.sessions.rewrite_cache import Rewrites
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens

log = logging.getLogger(__name__)

RECORD_S = 120
"""Seconds for which the record of a rewrite is kept where nobody is left to delete it."""
POLL_MS = 400


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What to look for.

    Attributes:
        query: the question, or what it was rewritten to.
        ms: that this took; None where it was not tried.
    """

    query: str
    ms: float | None = None


class Rewriter:
    """Makes questions of a conversation stand alone.

    Args:
        window: tokens that the model can hold.
        queue: whose records expire after `RECORD_S` seconds.
        client: from `make_async_redis`.
    """

    def __init__(self, settings: Settings, tokens: Tokens, window: int, queue: Queue, client: AsyncRedisClient) -> None:
        self._settings = settings
        self._tokens = tokens
        self._window = window
        self._queue = queue
        self._redis = client
        self._known = Rewrites(client, settings.answers.ttl)

    async def rewrite(
        self, question: str, past: Sequence[Exchange], *, whose: Principal, session_id: str = ""
    ) -> Rewritten:
        """What a question means, by the conversation before it; the question where that needs no look, or fails.

        Args:
            past: the conversation, oldest first.
            session_id: "" for a history that a client sends.
        """
        if not past or not needs_rewriting(question):
            return Rewritten(question)
        began = time.perf_counter()
        query = question
        try:
            with anyio.move_on_after(self._settings.retrieval.rewrite_timeout) as limit:
                query = await self._rewritten(question, past, whose, session_id)
            if limit.cancelled_caught:
                log.warning("a question was not rewritten in %.1f s; it is used as it is", time.perf_counter() - began)
        except Exception as error:
            log.warning("a question could not be rewritten (%s: %s); it is used as it is", type(error).__name__, error)
        return Rewritten(query, 1e3 * (time.perf_counter() - began))

    async def _rewritten(self, question: str, past: Sequence[Exchange], whose: Principal, session_id: str) -> str:
        segments = rewrite.prompt(question, past, self._tokens, self._window)
        if segments is None:
            return question
        digest = self._digest(segments)
        known = await self._known.get(whose.owner, session_id, digest)
        if known is None:
            said = await self._generated(self._job(question, segments, whose, session_id))
            known = (said and rewrite.usable(said, question, past)) or question
            await self._known.put(whose.owner, session_id, digest, known)
        return known

    async def _generated(self, job: GenerateJob) -> str | None:
        """The model's reply; None where it failed or was cut off."""
        stream = AnswerStream(None, job.owner, job.answer_id, self._redis)
        try:
            await anyio.to_thread.run_sync(self._queue.enqueue_generate, job)
            seen = "0-0"
            while True:
                for entry_id, event in await stream.aread(seen, POLL_MS):
                    seen = entry_id
                    if isinstance(event, DoneEvent):
                        return event.text if event.finish_reason == "stop" else None
                    if isinstance(event, ErrorEvent):
                        raise RuntimeError(event.detail)
        finally:
            with anyio.CancelScope(shield=True), suppress(QueueUnavailable):
                await stream.aforget()  # a worker that still writes it finds nothing, and stops

    def _job(self, question: str, segments: Sequence[Segment], whose: Principal, session_id: str) -> GenerateJob:
        return make_job(
            uuid.uuid4().hex,
            whose,
            Prompt(list(segments), 0, 0, []),
            session_id="",
            question=question,
            turn=NO_TURN,
            sampling=Sampling(max_tokens=rewrite.MOST_TOKENS, seed=0, stop=["\n"], exact="strict"),
            speculation=Speculation(drafter=self._settings.drafter),
            rewrites=session_id,
        )

    def _digest(self, segments: Sequence[Segment]) -> str:
        """Names a question in its conversation, for this model."""
        texts = [self._settings.model, self._tokens.hash, *(segment.text for segment in segments)]
        return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:32]
