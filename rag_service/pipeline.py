"""`answer()`: retrieve → prompt → enqueue → events. The one path of every query, whoever asks.

Knows the order of the hops and what is refused before a worker is troubled; knows no HTTP.
"""

from __future__ import annotations

import contextlib
import copy
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from rag_service import answers, conversation, edits, prompt
from rag_service.admission import Admission
from rag_service.api_keys import ApiKeys
from rag_service.conversation import Conversation
from rag_service.errors import NotFound, Problem, Unavailable
from rag_service.generation_options import sampling, speculation
from rag_service.models import model_folder, window_of
from rag_service.pipeline_names import DEFAULT_COLLECTION
from rag_service.schemas import Answer, AnswerOptions, EditRequest, QueryRequest, Version
from rag_service.settings import Settings
from rag_service.turns import busy, check_room, claim
from retriever import Embedder, Library
from retriever.library import DEFAULT_TENANT
from workers.answer_store import erase_collection
from workers.app import make_app, make_async_redis, make_redis
from workers.errors import ClaimLost, QueueUnavailable
from workers.messages import AnswerEvent, DoneEvent, Edit, ErrorEvent, GenerateJob, TurnRecord
from workers.queue import Queue
from workers.sessions import Sessions
from workers.streams import AnswerRecord, AnswerStream
from workers.tokens import Tokens

ATTEMPTS = 3
"""How often a prompt is built anew whose claim on its session lapsed meanwhile."""
POLL_MS = 400
"""Longest wait for one look at a stream."""


@dataclass
class Totals:
    asked: int = 0
    """Answers enqueued by this process."""


class Pipeline:
    """Everything a query passes through, opened once per process; `of` gives each tenant's.

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
        self.tenant = DEFAULT_TENANT
        self.embedder = embedder or _embedder(folder(settings.embedding_model))
        self.library = Library(settings.data_dir, self.embedder)
        self.redis = make_redis(redis_url)
        self._async_redis = make_async_redis(redis_url)
        self.api_keys = ApiKeys(self.redis, self._async_redis)
        self._celery = make_app(redis_url)
        ttl = {"answer_ttl_s": settings.answers.ttl, "session_ttl_s": settings.answers.session_ttl}
        self.queue = Queue(self._celery, self.redis, **ttl)
        self.sessions = Sessions(self.redis, settings.answers.session_ttl)
        self.admission = Admission(settings, self.tokens, self.queue)
        self.totals = Totals()

    def of(self, tenant: str) -> Pipeline:
        """The same for another tenant: shares everything but what it may see."""
        theirs = copy.copy(self)
        theirs.tenant = tenant
        theirs.library = self.library.of(tenant)
        return theirs

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
            erase_collection(self.redis, self.tenant, name)
        self.library.delete(name)

    async def answer(self, request: QueryRequest | Conversation) -> str:
        """Retrieve, build the prompt and enqueue. Returns the answer's id; `events` has what follows.

        Raises:
            Problem: the request is refused, and nothing was kept of it.
        """
        await anyio.to_thread.run_sync(self._check, request)
        if isinstance(request, Conversation) or request.apart:
            return await anyio.to_thread.run_sync(self._apart, request)
        session_id = request.session_id or uuid.uuid4().hex
        return await self._next_turn(request, session_id, lambda answer_id: self._query(request, session_id, answer_id))

    async def edit(self, answer_id: str, request: EditRequest) -> str:
        """Enqueue a new version of a finished answer. Returns the new version's id.

        Raises:
            Problem: the request is refused, and nothing was kept of it.
        """
        await anyio.to_thread.run_sync(self._check, request)
        record = await self.record(answer_id)
        edits.finished(record)
        base = await self.result(answer_id)
        return await self._next_turn(
            request, record["session_id"], lambda new_id: self._edited(request, record, base, new_id)
        )

    async def versions(self, answer_id: str) -> list[Version]:
        """The versions of an answer that are kept, the first one first; any of them may be asked with.

        Raises:
            NotFound: the answer is not kept (any more).
        """
        root = edits.root(await self.record(answer_id))
        ids = await anyio.to_thread.run_sync(self.sessions.versions, self.tenant, root)
        records = [await self._stream(one).arecord() for one in ids]
        return [answers.version(record) for record in records if record is not None]

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
        return await anyio.to_thread.run_sync(self.queue.cancel, self.tenant, answer_id)

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
        return AnswerStream(self.redis, self.tenant, answer_id, self._async_redis)

    def _check(self, request: QueryRequest | EditRequest | Conversation) -> None:
        """Refuse what can be refused before anything else is looked at."""
        self.admission.check(request)
        if not isinstance(request, EditRequest) and request.collection is not None:
            self.library.collection(request.collection)  # unknown names are refused whatever the mode
        self.admission.check_capacity()

    async def _next_turn(self, request: AnswerOptions, session_id: str, make: Callable[[str], GenerateJob]) -> str:
        """Enqueue what `make` makes for a new answer id as the session's next turn; returns the id."""
        answer_id = uuid.uuid4().hex
        patience_s = self.settings.answers.timeout if request.on_conflict == "wait" else None

        def enqueue() -> bool:
            try:
                self.queue.enqueue_generate(make(answer_id), claimed=True)
            except ClaimLost:
                return False
            except BaseException:
                with contextlib.suppress(QueueUnavailable):  # then the claim lapses by itself
                    self.sessions.release(self.tenant, session_id, answer_id)
                raise
            return True

        for _ in range(ATTEMPTS):
            await claim(self.sessions, self.tenant, session_id, answer_id, patience_s=patience_s)
            if await anyio.to_thread.run_sync(enqueue):
                self.totals.asked += 1
                return answer_id
        raise busy(session_id)

    def _query(self, request: QueryRequest, session_id: str, answer_id: str) -> GenerateJob:
        turns = self._turns(session_id) if request.session_id else []
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
        return GenerateJob(
            answer_id=answer_id,
            tenant=self.tenant,
            session_id=session_id,
            collection=collection,
            question=request.question,
            segments=built.segments,
            new_from=built.new_from,
            turn=len(turns),
            passages=built.passages,
            sampling=sampling(request, max_tokens),
            speculation=speculation(request, self.settings.drafter),
            prediction=request.predicted,
            created=time.time(),
        )

    def _apart(self, request: Conversation | QueryRequest) -> str:
        """Enqueue an answer that is no turn of a session, even where it continues one; returns its id."""
        answer_id = uuid.uuid4().hex
        if isinstance(request, QueryRequest):
            job = self._query(request, request.session_id or "", answer_id).model_copy(update={"turn": edits.APART})
        else:
            mode = (request.retrieval.mode or self.settings.retrieval.mode) if request.collection else "none"
            job = conversation.job(
                request,
                self._retrieve(request, mode, request.collection),
                self.tokens,
                tenant=self.tenant,
                answer_id=answer_id,
                window=self.window,
                max_tokens=request.max_tokens or self.settings.answers.max_tokens,
                grounded=mode != "none",
                drafter=self.settings.drafter,
            )
        self.queue.enqueue_generate(job)
        self.totals.asked += 1
        return answer_id

    def _edited(self, request: EditRequest, record: AnswerRecord, base: Answer, answer_id: str) -> GenerateJob:
        if self._stream(base.answer_id).record() is None:  # erased while this one waited for its turn
            raise unknown_answer(base.answer_id)
        turns = self._turns(base.session_id)
        found = edits.conversation(record, turns, self.tokens.eos_ids)
        usual = self.settings.answers.max_tokens
        # Room for the whole answer and for what is added to it.
        max_tokens = request.max_tokens or max(usual, min(len(found.answer.ids or ()) + usual // 2, 32768))
        built = prompt.build(
            request.instruction,
            edits.passages(record),
            found.turns,
            self.tokens,
            window=self.window,
            max_tokens=max_tokens,
            edited=found.answer,
        )
        assert built.edited is not None
        root = edits.root(record)
        edit = Edit(
            base=base.answer_id,
            root=root,
            version=max(len(self.sessions.versions(self.tenant, root)), base.version) + 1,
            instruction=request.instruction,
            segment=built.edited,
            text=base.answer or "",
            citations=[citation.model_dump() for citation in base.citations or ()],
        )
        return GenerateJob(
            answer_id=answer_id,
            tenant=self.tenant,
            session_id=base.session_id,
            collection=base.collection,
            question=base.question,
            segments=built.segments,
            new_from=built.new_from,
            turn=found.turn,
            passages=built.passages,
            sampling=sampling(request, max_tokens),
            speculation=speculation(request, self.settings.drafter),
            edit=edit,
            created=time.time(),
        )

    def _turns(self, session_id: str) -> list[TurnRecord]:
        """Of a session that has room for one more. Raises Conflict where it has none."""
        check_room(self.sessions, self.tenant, session_id, self.settings.answers.session_tokens)
        return self.sessions.turns(self.tenant, session_id, self.tokens.hash)

    def _collection(self, request: QueryRequest, turns: list[TurnRecord]) -> str | None:
        """The named collection, else that of the session's last turn, else `default` if there is one."""
        if request.collection is not None:
            return request.collection
        if turns:
            last = self._stream(turns[-1].answer_id).record()
            if last is not None and last["collection"] in self.library.collections():
                return last["collection"]
        return DEFAULT_COLLECTION if DEFAULT_COLLECTION in self.library.collections() else None

    def _retrieve(
        self, request: QueryRequest | Conversation, mode: str, collection: str | None
    ) -> list[dict[str, Any]]:
        if collection is not None:
            found = self.library.collection(collection)
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
