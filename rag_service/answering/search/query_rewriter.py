"""Rewrites follow-ups with the target model, through the workers' queue, within a time limit.

After any failure, the question itself is used. The job is greedy and strict and uses the service's own drafter, so the
request's sampling and speculation never change the search. The job belongs to no session: it has its own route and its
own kept rows, and its record is deleted once it is read.

Knows prompts, the queue and time limits; knows no passages and no HTTP.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import anyio
import anyio.to_thread

from rag_service.access.principal import Principal
from rag_service.prompting.jobs import NO_TURN, make_job
from rag_service.prompting.prompt import Prompt
from rag_service.prompting.rewriting import standalone as rewrite
from rag_service.prompting.rewriting.also import plainly
from rag_service.prompting.rewriting.beginning import Beginning, beginning, going_on, other_side, with_place
from rag_service.prompting.rewriting.follow_up import names_nothing, needs_rewriting
from rag_service.prompting.rewriting.joining import behind, says_little
from rag_service.prompting.rewriting.ordinals import resolved
from rag_service.prompting.rewriting.replacement import replaced
from rag_service.prompting.rewriting.standalone import Exchange
from rag_service.settings import Settings
from retriever.languages import language_of
from workers.broker.app import AsyncRedisClient
from workers.broker.messages import DoneEvent, ErrorEvent, GenerateJob, NotRewritten, Sampling, Segment, Speculation
from workers.errors import QueueUnavailable
from workers.sessions.queue import Queue
from workers.sessions.rewrite_cache import Rewrites
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens

log = logging.getLogger(__name__)

RECORD_S = 120
"""Seconds until the record of a rewrite expires if nobody deletes it."""
POLL_MS = 400
BANNED = -100.0
"""Bias of the logit of a token that is not to be chosen."""
UNLIKELY_END = -2.0
"""Bias of question marks and ends where a question may go on. A model of 1.5B completes most questions about the same
thing from -1.5 on, and leaves those about something else as they are up to -3.5 (docs/log.md)."""
ENDS = ("?", " ?", "?\n", "?\n\n", '?"')
"""How questions end; many vocabularies have a token for each."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The search query.

    Attributes:
        query: the question or its rewrite.
        ms: time of rewriting; None if it was not tried.
        failure: why there is no rewrite, although there was to be one.
        completed: whether the question lacks nothing, so that it may be about something else than the query.
        joined: whether the query is the question behind the one before it, since there is no rewrite.
    """

    query: str
    ms: float | None = None
    failure: NotRewritten | None = None
    completed: bool = False
    joined: bool = False


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
        self._cache = Rewrites(client, settings.answers.ttl)

    async def rewrite(
        self,
        question: str,
        past: Sequence[Exchange],
        *,
        principal: Principal,
        session_id: str = "",
        collection: str | None = None,
        complete: bool = False,
    ) -> Rewritten:
        """The question as it stands alone: its rewrite, or itself if it needs none or rewriting fails.

        Of a question that says hardly anything by itself ("And how much is that?"), for which the model finds no other
        words, the query is the question before and this one; of any that lacks something, if rewriting fails.

        Args:
            past: the conversation, oldest first.
            session_id: "" if the client sends the history.
            collection: that the question asks; the model server of its answers rewrites it, too.
            complete: whether the question says what it is about, unless its words point back.
        """
        asked = plainly(question)
        lacks = needs_rewriting(asked)
        if not past or not (lacks or (not complete and await _names_nothing(question))):
            return Rewritten(question)
        started = time.perf_counter()
        if (other := await anyio.to_thread.run_sync(without_model, asked, past)) is not None:
            return Rewritten(other, 1e3 * (time.perf_counter() - started))
        query = question
        failure: NotRewritten | None = None
        try:
            with anyio.move_on_after(self._settings.retrieval.rewrite_timeout) as limit:
                upstream = self._settings.upstream_of(collection)
                found = await self._rewritten(asked, past, principal, session_id, upstream)
                query = question if found == asked else found
            if limit.cancelled_caught:
                failure = "late"
                log.warning(
                    "rewriting a question took longer than %.1f s; the question's own words are used",
                    time.perf_counter() - started,
                )
        except Exception as error:
            failure = "failed"
            log.warning(
                "rewriting a question failed (%s: %s); the question's own words are used", type(error).__name__, error
            )
        ms = 1e3 * (time.perf_counter() - started)
        if query == question and (lacks if failure else says_little(asked)):
            return Rewritten(behind(past[-1].question, question), ms, failure, joined=True)
        return Rewritten(query, ms, failure, not lacks and query != question)

    async def _rewritten(
        self, question: str, past: Sequence[Exchange], principal: Principal, session_id: str, upstream: str | None
    ) -> str:
        begins = Beginning()  # a model server begins its replies itself
        if upstream is None:
            begins = beginning_of(question, past)
        language = await anyio.to_thread.run_sync(language_of, f"{past[-1].question} {question}")
        segments = rewrite.prompt(question, past, self._tokens, self._window, language=language, beginning=begins.text)
        if segments is None:
            return question
        digest = self._digest(segments, upstream)
        query = await self._cache.get(principal.owner, session_id, digest)
        if query is None:
            job = self._job(question, segments, principal, session_id, upstream, biases_of(begins, self._tokens))
            reply = await self._generated(job)
            query = rewrite_of(reply and rewrite.completed(begins.text, reply), question, past) or question
            await self._cache.put(principal.owner, session_id, digest, query)
        return query

    async def _generated(self, job: GenerateJob) -> str | None:
        """The model's reply; None if it was cut off."""
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

    def _job(
        self,
        question: str,
        segments: Sequence[Segment],
        principal: Principal,
        session_id: str,
        upstream: str | None,
        logit_bias: dict[int, float],
    ) -> GenerateJob:
        exact: Literal["default", "strict"] = "strict" if upstream is None else "default"
        return make_job(
            uuid.uuid4().hex,
            principal,
            Prompt(list(segments), 0, 0, []),
            session_id="",
            question=question,
            turn=NO_TURN,
            sampling=Sampling(max_tokens=rewrite.MOST_TOKENS, seed=0, stop=["\n"], exact=exact, logit_bias=logit_bias),
            speculation=Speculation(drafter=self._settings.drafter),
            rewrites=session_id,
            upstream=upstream,
        )

    def _digest(self, segments: Sequence[Segment], upstream: str | None) -> str:
        """Names a question in its conversation, for this model."""
        models = {endpoint.name: f"{endpoint.url} {endpoint.model}" for endpoint in self._settings.endpoints}
        model = self._settings.model if upstream is None else models[upstream]
        texts = [model, self._tokens.hash, *(segment.text for segment in segments)]
        return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:32]


def without_model(question: str, past: Sequence[Exchange]) -> str | None:
    """The question as it stands alone, where names or a preposition alone have to be put in."""
    asked = [exchange.question for exchange in past]
    language = language_of(asked[-1])
    if (other := other_side(question, asked)) is not None:
        return other
    named = resolved(question, asked, language)
    return replaced(named or question, asked[-1], language) or named


def rewrite_of(text: str | None, question: str, past: Sequence[Exchange]) -> str | None:
    """The model's rewrite, or one without it where that is of no use; None if there is neither."""
    usable = rewrite.usable(text, question, past) if text else None
    return usable or with_place(question, [exchange.question for exchange in past])


def beginning_of(question: str, past: Sequence[Exchange]) -> Beginning:
    """How the rewrite of a question begins that is to be rewritten."""
    begins = beginning(question, [exchange.question for exchange in past])
    return going_on(question) if begins == Beginning() and not needs_rewriting(question) else begins


def biases_of(begins: Beginning, tokens: Tokens) -> dict[int, float]:
    """By token. None for a word of several tokens, which would keep out others with its parts."""
    biases = dict.fromkeys(ENDS, UNLIKELY_END) if begins.goes_on else {}
    biases |= {form: BANNED for word in begins.without for form in (word, f" {word}")}
    ids = {form: tokens.encode_content(form).ids for form in biases}
    found = {ids[form][0]: bias for form, bias in biases.items() if len(ids[form]) == 1}
    return found | dict.fromkeys(tokens.eos_ids if begins.goes_on else (), UNLIKELY_END)


async def _names_nothing(question: str) -> bool:
    return await anyio.to_thread.run_sync(lambda: names_nothing(question, language_of(question)))
