"""The path of every query: `Retrieval.find` → `questions.job` → `Queue.enqueue_generate`; `events` has what follows.

Knows the order of the hops and what is refused before a worker is troubled; knows no HTTP.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio

from rag_service.access.api_keys import ApiKeys
from rag_service.access.principal import Principal
from rag_service.answering import answers
from rag_service.answering.admission import Admission
from rag_service.answering.models import model_folder, window_of
from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.answering.query_rewriter import RECORD_S, Rewriter
from rag_service.answering.retrieval import Asked, Retrieval
from rag_service.answering.turns import busy, check_room, claim
from rag_service.contract.ids import unknown_answer
from rag_service.contract.schemas import Answer, AnswerOptions, EditRequest, QueryRequest, Version
from rag_service.errors import Unavailable
from rag_service.prompting import conversation, edits, questions
from rag_service.prompting.conversation import Conversation
from rag_service.settings import Settings
from retriever import Embedder, EmbedderUnavailable, Library, make_embedder
from workers.broker.app import make_app, make_async_redis, make_redis
from workers.broker.messages import AnswerEvent, DoneEvent, ErrorEvent, GenerateJob, TurnRecord
from workers.errors import ClaimLost, QueueUnavailable
from workers.ingests.files import JobFiles
from workers.ingests.queue import IngestQueue
from workers.ingests.redis_ledger import RedisJobLedger
from workers.sessions.answer_store import erase_collection
from workers.sessions.passage_ids import forget_passages
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerRecord, AnswerStream
from workers.tokens.tokenizer import Tokens

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a prompt is built anew whose claim on its session lapsed meanwhile."""
POLL_MS = 400
"""Longest wait for one look at a stream."""


@dataclass
class Totals:
    asked: int = 0
    """Answers enqueued by this process."""


class Pipeline:
    """Everything a query passes through, opened once per process; `of` gives each principal's.

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
        self.principal = Principal()
        self.embedder = embedder or make_embedder(settings.embedding_model, folder)
        self.library = Library(settings.data_dir, self.embedder)
        self.redis = make_redis(redis_url)
        self._async_redis = make_async_redis(redis_url)
        self.api_keys = ApiKeys(self.redis, self._async_redis)
        self._celery = make_app(redis_url)
        ttl = {"answer_ttl_s": settings.answers.ttl, "session_ttl_s": settings.answers.session_ttl}
        self.queue = Queue(self._celery, self.redis, **ttl)
        ledger = RedisJobLedger(self.redis, JobFiles(settings.uploads_folder))
        self.ingests = IngestQueue(self._celery, self.redis, ledger)
        self.sessions = Sessions(self.redis, settings.answers.session_ttl)
        self.probe_threads, self.embedding_threads = anyio.CapacityLimiter(4), anyio.CapacityLimiter(4)
        self.admission = Admission(settings, self.tokens, self.queue, self.ingests)
        brief = Queue(self._celery, self.redis, answer_ttl_s=RECORD_S)
        self.retrieval = Retrieval(settings, Rewriter(settings, self.tokens, self.window, brief, self._async_redis))
        self.totals = Totals()
        self._warming: threading.Thread | None = None

    def warm(self) -> None:
        """Begin to load the embedding model, which the first search would wait for; `warming` until it is there."""
        load = getattr(self.embedder, "load", None)
        if load is not None and self.settings.retrieval.mode in ("hybrid", "dense"):
            self._warming = threading.Thread(target=_tried, args=(load,), name="embedding model")
            self._warming.start()

    @property
    def warming(self) -> bool:
        return self._warming is not None and self._warming.is_alive()

    def of(self, principal: Principal) -> Pipeline:
        """The same for whoever asks: shares everything but what they may see."""
        theirs = copy.copy(self)
        theirs.principal = principal
        theirs.library = self.library.of(principal.tenant).only(principal.collections)
        return theirs

    async def close(self) -> None:
        self.library.close()
        await self._async_redis.aclose()
        self.redis.close()
        self._celery.close()

    def delete_collection(self, name: str) -> None:
        """Delete a collection, its documents, its ingests and what was kept of its answers to copy from.

        Raises UnknownCollection, and QueueUnavailable where such answers are kept and Redis is away.
        """
        self.library.collection(name)
        if self.settings.answers.store_tokens:
            erase_collection(self.redis, self.principal.tenant, name)
        with contextlib.suppress(QueueUnavailable):
            self.ingests.cancel_all(self.principal.tenant, name)
        self.library.delete(name)
        self.forget_passages()

    def forget_passages(self) -> None:
        """Some documents are gone: forget the ids of the tenant's passages. While Redis is away they only expire."""
        with contextlib.suppress(QueueUnavailable):
            forget_passages(self.redis, self.principal.tenant)

    async def answer(self, request: QueryRequest | Conversation) -> str:
        """Retrieve, build the prompt and enqueue. Returns the answer's id; `events` has what follows.

        Raises:
            Problem: the request is refused, and nothing was kept of it.
        """
        await anyio.to_thread.run_sync(self._check, request)
        if isinstance(request, Conversation) or request.apart:
            return await self._apart(request)
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
        edited = partial(self._edited, request, record, base)
        return await self._next_turn(
            request, record["session_id"], lambda new_id: anyio.to_thread.run_sync(edited, new_id)
        )

    async def versions(self, answer_id: str) -> list[Version]:
        """The versions of an answer that are kept, the first one first; any of them may be asked with.

        Raises:
            NotFound: the answer is not kept (any more).
        """
        root = edits.root(await self.record(answer_id))
        ids = await anyio.to_thread.run_sync(self.sessions.versions, self.principal.owner, root)
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
        return await anyio.to_thread.run_sync(self.queue.cancel, self.principal.owner, answer_id)

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
        return AnswerStream(self.redis, self.principal.owner, answer_id, self._async_redis)

    def _check(self, request: QueryRequest | EditRequest | Conversation) -> None:
        """Refuse what can be refused before anything else is looked at."""
        self.admission.check(request)
        if not isinstance(request, EditRequest) and request.collection is not None:
            self.library.collection(request.collection)  # unknown names are refused whatever the mode
        self.admission.check_capacity()

    async def _next_turn(
        self, request: AnswerOptions, session_id: str, make: Callable[[str], Awaitable[GenerateJob]]
    ) -> str:
        """Enqueue what `make` makes for a new answer id as the session's next turn; returns the id."""
        answer_id = uuid.uuid4().hex
        patience_s = self.settings.answers.timeout if request.on_conflict == "wait" else None

        def release() -> None:
            with contextlib.suppress(QueueUnavailable):  # then the claim lapses by itself
                self.sessions.release(self.principal.owner, session_id, answer_id)

        def enqueue(job: GenerateJob) -> bool:
            try:
                self.queue.enqueue_generate(job, claimed=True)
            except ClaimLost:
                return False
            except BaseException:
                release()
                raise
            return True

        for _ in range(ATTEMPTS):
            await claim(self.sessions, self.principal.owner, session_id, answer_id, patience_s=patience_s)
            try:
                job = await make(answer_id)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(release)
                raise
            if await anyio.to_thread.run_sync(enqueue, job):
                self.totals.asked += 1
                return answer_id
        raise busy(session_id)

    async def _query(self, request: QueryRequest, session_id: str, answer_id: str) -> GenerateJob:
        turns = await anyio.to_thread.run_sync(self._turns, session_id) if request.session_id else []
        grounded = self.retrieval.mode(request.retrieval) != "none"
        collection = request.collection
        if grounded and collection is None:
            collection = await anyio.to_thread.run_sync(self._collection, turns)
        asked = Asked.in_session(request.question, session_id, turns)
        found = await self.retrieval.find(self.library, self.principal, collection, request.retrieval, asked)
        make = partial(
            questions.job,
            request,
            found,
            turns,
            self.tokens,
            principal=self.principal,
            session_id=session_id,
            answer_id=answer_id,
            collection=collection,
            window=self.window,
            max_tokens=request.max_tokens or self.settings.answers.max_tokens,
            grounded=grounded,
            drafter=self.settings.drafter,
        )
        return await anyio.to_thread.run_sync(make)

    async def _apart(self, request: Conversation | QueryRequest) -> str:
        """Enqueue an answer that is no turn of a session, even where it continues one; returns its id."""
        answer_id = uuid.uuid4().hex
        if isinstance(request, QueryRequest):
            built = await self._query(request, request.session_id or "", answer_id)
            job = built.model_copy(update={"turn": edits.APART})
        else:
            asked, collection = Asked(request.question, request.past), request.collection
            found = await self.retrieval.find(self.library, self.principal, collection, request.retrieval, asked)
            make = partial(
                conversation.job,
                request,
                found,
                self.tokens,
                principal=self.principal,
                answer_id=answer_id,
                window=self.window,
                max_tokens=request.max_tokens or self.settings.answers.max_tokens,
                grounded=request.collection is not None and self.retrieval.mode(request.retrieval) != "none",
                drafter=self.settings.drafter,
            )
            job = await anyio.to_thread.run_sync(make)
        await anyio.to_thread.run_sync(self.queue.enqueue_generate, job)
        self.totals.asked += 1
        return answer_id

    def _edited(self, request: EditRequest, record: AnswerRecord, base: Answer, answer_id: str) -> GenerateJob:
        if self._stream(base.answer_id).record() is None:  # erased while this one waited for its turn
            raise unknown_answer(base.answer_id)
        return edits.job(
            request,
            record,
            base,
            self._turns(base.session_id),
            self.tokens,
            principal=self.principal,
            answer_id=answer_id,
            versions=len(self.sessions.versions(self.principal.owner, edits.root(record))),
            window=self.window,
            usual_tokens=self.settings.answers.max_tokens,
            drafter=self.settings.drafter,
        )

    def _turns(self, session_id: str) -> list[TurnRecord]:
        """Of a session that has room for one more. Raises Conflict where it has none."""
        check_room(self.sessions, self.principal.owner, session_id, self.settings.answers.session_tokens)
        return self.sessions.turns(self.principal.owner, session_id, self.tokens.hash)

    def _collection(self, turns: Sequence[TurnRecord]) -> str | None:
        """That of the session's last turn, else `default` if there is one."""
        if turns:
            last = self._stream(turns[-1].answer_id).record()
            if last is not None and last["collection"] in self.library.collections():
                return last["collection"]
        return DEFAULT_COLLECTION if DEFAULT_COLLECTION in self.library.collections() else None


def _tried(load: Callable[[], None]) -> None:
    try:
        load()
    except EmbedderUnavailable as error:  # searches say so, too
        log.error("%s", error)
