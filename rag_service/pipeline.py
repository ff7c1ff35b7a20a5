"""`answer()`: retrieve → prompt → enqueue → events. The one path of every query, whoever asks.

Knows the order of the hops and what is refused before a worker is troubled; knows no HTTP.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from rag_service import answers, prompt
from rag_service.errors import (
    InvalidRequest,
    NotFound,
    Overloaded,
    Problem,
    TooLarge,
    Unavailable,
    no_worker,
)
from rag_service.models import model_folder, window_of
from rag_service.pipeline_names import DEFAULT_COLLECTION
from rag_service.schemas import Answer, QueryRequest, SpeculationOptions
from rag_service.settings import Settings
from retriever import Embedder, Library
from workers.answer_store import erase_collection
from workers.app import make_app, make_async_redis, make_redis
from workers.messages import AnswerEvent, DoneEvent, ErrorEvent, GenerateJob, Sampling, Speculation, TurnRecord
from workers.queue import Queue
from workers.sessions import Sessions
from workers.streams import AnswerRecord, AnswerStream
from workers.tokens import Tokens

TENANT = "default"
POLL_MS = 400
"""Longest wait for one look at a stream."""


class Pipeline:
    """Everything a query passes through, opened once per process.

    Args:
        settings: the service's.
        redis_url: the Redis to use.
        embedder, tokens, window: of the configured models; taken from the models folder where None.

    Raises:
        InvalidSettings: a model's files are missing.
    """

    def __init__(
        self,
        settings: Settings,
        redis_url: str,
        *,
        embedder: Embedder | None = None,
        tokens: Tokens | None = None,
        window: int | None = None,
    ) -> None:
        self.settings = settings
        folder = partial(model_folder, models_folder=settings.models_folder)
        self.tokens = tokens or Tokens.load(folder(settings.model))
        self.window = window or window_of(folder(settings.model))
        self.library = Library(settings.data_dir, embedder or _embedder(folder(settings.embedding_model)))
        self.redis = make_redis(redis_url)
        self._async_redis = make_async_redis(redis_url)
        self._celery = make_app(redis_url)
        ttl = {"answer_ttl_s": settings.answers.ttl, "session_ttl_s": settings.answers.session_ttl}
        self.queue = Queue(self._celery, self.redis, **ttl)
        self.sessions = Sessions(self.redis, settings.answers.session_ttl)
        self.asked = 0
        """Answers enqueued by this process."""

    async def close(self) -> None:
        self.library.close()
        await self._async_redis.aclose()
        self.redis.close()
        self._celery.close()

    def delete_collection(self, name: str) -> None:
        """Delete a collection, its documents and what was kept of its answers to copy from.

        Raises UnknownCollection, and QueueUnavailable where such answers are kept and Redis is away.
        """
        self.library.collection(name)
        if self.settings.answers.store_tokens:
            erase_collection(self.redis, TENANT, name)
        self.library.delete(name)

    async def answer(self, request: QueryRequest) -> str:
        """Retrieve, build the prompt and enqueue. Returns the answer's id; `events` has what follows.

        Raises:
            Problem: the request is refused, and nothing was kept of it.
        """
        return await anyio.to_thread.run_sync(self._answer, request)

    async def events(self, answer_id: str, after: str = "0-0") -> AsyncIterator[tuple[str, AnswerEvent] | None]:
        """Events after an entry id as they come, up to the last one; None after each stretch of silence.

        Raises:
            NotFound: the answer is not kept (any more).
        """
        stream = self._stream(answer_id)
        silent_since = time.monotonic()
        while True:
            found = await stream.aread(after, POLL_MS)
            for entry_id, event in found:
                after = entry_id
                yield entry_id, event
                if isinstance(event, DoneEvent | ErrorEvent):
                    return
            if found:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since >= self.settings.answers.heartbeat:
                silent_since = time.monotonic()
                if await stream.arecord() is None:
                    raise unknown_answer(answer_id)
                yield None

    async def waiting_events(self, answer_id: str, after: str) -> bool:
        """Whether there are events after an entry id. Raises ValueError if `after` is not an entry id."""
        return bool(await self._stream(answer_id).aread(after, count=1))

    async def record(self, answer_id: str) -> AnswerRecord:
        """What is kept of an answer.

        Raises:
            NotFound: nothing (any more).
        """
        record = await self._stream(answer_id).arecord()
        if record is None:
            raise unknown_answer(answer_id)
        return record

    async def cancel(self, answer_id: str) -> bool:
        """Ask for an answer to stop; False if it ended already.

        Raises:
            NotFound: it is not kept (any more).
        """
        await self.record(answer_id)
        return await anyio.to_thread.run_sync(self.queue.cancel, TENANT, answer_id)

    async def result(self, answer_id: str, token_ids: bool = False) -> Answer:
        """The answer in its present state; with its token ids where asked for.

        Raises:
            NotFound: it is not kept (any more).
        """
        record = await self.record(answer_id)
        present = partial(answers.present, record, self.tokens, self.settings.answers.min_run, token_ids)
        return await anyio.to_thread.run_sync(present)

    async def finished(self, answer_id: str) -> Answer:
        """Wait for the end of an answer.

        Raises:
            Unavailable: it takes longer than the settings allow; it runs on, and can be read later.
        """
        with anyio.move_on_after(self.settings.answers.timeout) as waiting:
            async for _ in self.events(answer_id):
                pass
        if waiting.cancelled_caught:
            raise Unavailable(
                f"The answer is not ready after {self.settings.answers.timeout:g} s. It is not lost: read it at "
                f"/v1/answers/{answer_id}, or follow /v1/answers/{answer_id}/events.",
                "answer_timeout",
                retry_after=10,
                answer_id=answer_id,
            )
        return await self.result(answer_id)

    def _stream(self, answer_id: str) -> AnswerStream:
        return AnswerStream(self.redis, TENANT, answer_id, self._async_redis)

    def _answer(self, request: QueryRequest) -> str:
        self.check_question(request.question)
        self.check_top_k(request.retrieval.top_k)
        self._check_bias(request)
        self.check_capacity()
        session_id = request.session_id or uuid.uuid4().hex
        turns = self.sessions.turns(TENANT, session_id) if request.session_id else []
        mode = request.retrieval.mode or self.settings.retrieval.mode
        collection = self._collection(request, turns) if mode != "none" else request.collection
        passages = self._retrieve(request, mode, collection)
        max_tokens = request.max_tokens or self.settings.answers.max_tokens
        built = prompt.build(
            request.question,
            passages,
            turns,
            self.tokens,
            window=self.window,
            max_tokens=max_tokens,
            grounded=mode != "none",
        )
        job = GenerateJob(
            answer_id=uuid.uuid4().hex,
            tenant=TENANT,
            session_id=session_id,
            collection=collection,
            question=request.question,
            segments=built.segments,
            new_from=built.new_from,
            turn=len(turns),
            passages=built.passages,
            sampling=_sampling(request, max_tokens),
            speculation=_speculation(request, self.settings.drafter),
            created=time.time(),
        )
        self.queue.enqueue_generate(job)
        self.asked += 1
        return job.answer_id

    def check_question(self, question: str) -> None:
        most = self.settings.limits.question_chars
        if len(question) > most:
            raise TooLarge(
                f"The question has {len(question):,} characters; ask it in at most {most:,}, "
                "and ingest long texts as documents.",
                "question_too_long",
            )

    def matching(self, workers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those workers whose tokenizer is this process's, so that prompts and citations mean the same to both."""
        return [worker for worker in workers if worker.get("tokenizer", self.tokens.hash) == self.tokens.hash]

    def check_capacity(self) -> None:
        """Refuse work that nobody would do.

        Raises:
            Unavailable: no worker runs (with this process's model), or Redis is away.
            Overloaded: too many jobs wait.
        """
        if not self.matching(self.queue.workers()):
            raise no_worker()
        waiting = sum(self.queue.depth().values())
        if waiting >= self.settings.limits.queued:
            raise Overloaded(
                f"{waiting} jobs wait for a worker already. Try again shortly, or start more workers.", retry_after=5
            )

    def check_top_k(self, top_k: int | None) -> None:
        if top_k is not None and top_k > self.settings.limits.passages:
            raise InvalidRequest(
                f"The top_k asked for is {top_k}; retrieve at most {self.settings.limits.passages} passages."
            )

    def _check_bias(self, request: QueryRequest) -> None:
        unknown = [token for token in request.logit_bias if int(token) >= self.tokens.vocab_size]
        if unknown:
            last = self.tokens.vocab_size - 1
            raise InvalidRequest(f"The logit_bias names token id {unknown[0]}; this model's ids are 0 to {last}.")

    def _collection(self, request: QueryRequest, turns: list[TurnRecord]) -> str | None:
        """The named collection, else that of the session's last turn, else `default` if there is one."""
        if request.collection is not None:
            return request.collection
        if turns:
            last = self._stream(turns[-1].answer_id).record()
            if last is not None and last["collection"] in self.library.collections():
                return last["collection"]
        return DEFAULT_COLLECTION if DEFAULT_COLLECTION in self.library.collections() else None

    def _retrieve(self, request: QueryRequest, mode: str, collection: str | None) -> list[dict[str, Any]]:
        if collection is not None:
            found = self.library.collection(collection)  # unknown names are refused whatever the mode
        if collection is None or mode == "none":
            return []
        options = request.retrieval
        top_k = options.top_k or min(self.settings.retrieval.top_k, self.settings.limits.passages)
        return [asdict(p) for p in found.search(request.question, top_k, mode, options.filter)]  # type: ignore[arg-type]


def unknown_answer(answer_id: str) -> Problem:
    return NotFound(
        f"There is no answer {answer_id[:80]!r}: it was erased, has expired, or was never asked for.", "unknown_answer"
    )


def _embedder(folder: Path) -> Embedder:
    from retriever import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(folder)


def _sampling(request: QueryRequest, max_tokens: int) -> Sampling:
    return Sampling(
        max_tokens=max_tokens,
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias={int(token): amount for token, amount in request.logit_bias.items()},
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        stop=request.stops,
        exact=request.exact,
    )


def _speculation(request: QueryRequest, drafter: str) -> Speculation:
    asked = request.speculation
    if isinstance(asked, SpeculationOptions):
        return Speculation(drafter=asked.drafter, max_nodes=asked.max_nodes)
    return Speculation(drafter=asked or drafter)
