"""What the service opens once per process, and each principal's view of it.

Knows settings, models' files, Redis and the collections; knows no prompts and no HTTP.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import anyio

from rag_service.access.api_keys import ApiKeys
from rag_service.access.audit_log import AuditLog
from rag_service.access.oidc.provider import Provider
from rag_service.access.principal import Principal
from rag_service.access.sign_ins import SignIns
from rag_service.answering import query_threads
from rag_service.answering.admission import Admission
from rag_service.answering.answer_reader import AnswerReader
from rag_service.answering.models import embedder_of, model_folder, reranking_of, window_of
from rag_service.answering.search.query_rewriter import RECORD_S, Rewriter
from rag_service.answering.search.retrieval import Retrieval
from rag_service.errors import Conflict, InvalidSettings
from rag_service.prompting.template import Templates
from rag_service.settings import Settings
from retriever import (
    Collection,
    Embedder,
    EmbedderUnavailable,
    Library,
    RerankerUnavailable,
    SentenceTransformerEmbedder,
    open_stores,
)
from workers.broker.app import RedisClient, make_app, make_async_redis, make_redis
from workers.errors import QueueUnavailable
from workers.ingests.ledger import JobLedger
from workers.ingests.open_ledger import open_ledger
from workers.ingests.queue import IngestQueue
from workers.sessions.answer_store import erase_collection
from workers.sessions.costs import Costs
from workers.sessions.passage_ids import forget_passages
from workers.sessions.queue import Queue
from workers.sessions.renames import Names, Renames
from workers.sessions.sessions import Sessions
from workers.tokens.own_tokens import own_tokens
from workers.tokens.tokenizer import Tokens

log = logging.getLogger(__name__)


@dataclass
class Totals:
    answers: int = 0
    """Answers enqueued by this process."""


class Service:
    """Settings, tokenizer, collections, Redis and queues, opened once per process; `of` gives a principal's view.

    Args:
        settings: the service's.
        redis_url: the Redis to use.
        embedder, tokens, window: of the configured models; None reads them from the models folder. Texts of model
            servers have a tokenizer of our own, and the smallest window of all of them.

    Raises:
        InvalidSettings: a model's files are missing or of another kind, or a prompt template is wrong.
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
        self.tokens, self.window = _reading(settings, tokens, window, folder)
        self.templates = Templates(
            settings.prompt.folder, settings.prompt.texts, settings.prompt.language, settings.prompt.collections
        )
        self.principal = Principal()
        self.embedder = embedder or embedder_of(settings, folder, redis_url)
        self.reranking = reranking_of(settings, folder)
        self.library = Library(
            settings.data_dir,
            self.embedder,
            stores=open_stores(settings.store, settings.data_dir),
            reranking=self.reranking,
        )
        self.redis = make_redis(redis_url)
        self._async_redis = make_async_redis(redis_url)
        self.api_keys = ApiKeys(self.redis, self._async_redis)
        self.sign_ins = SignIns(self._async_redis, self.api_keys, settings.sign_in_days)
        self.provider = None if settings.oidc.issuer is None else Provider(settings.oidc)
        self.audit = AuditLog(self.redis, settings.audit_days)
        self._celery = make_app(redis_url)
        ttl = {"answer_ttl_s": settings.answers.ttl, "session_ttl_s": settings.answers.session_ttl}
        self.queue = Queue(self._celery, self.redis, **ttl)
        self._ledger = _ledger(self.redis, settings)
        self.ingests = IngestQueue(self._celery, self.redis, self._ledger)
        self.sessions = Sessions(self.redis, settings.answers.session_ttl)
        self.renames = Renames(self.redis, self._async_redis, max(settings.answers.ttl, settings.answers.session_ttl))
        self.costs = Costs(self.redis)
        self.probe_threads, self.embedding_threads = anyio.CapacityLimiter(4), anyio.CapacityLimiter(4)
        self.admission = Admission(settings, self.tokens, self.queue, self.ingests)
        brief = Queue(self._celery, self.redis, answer_ttl_s=RECORD_S)
        rewriter = Rewriter(settings, self.tokens, self.window, brief, self._async_redis)
        self.retrieval = Retrieval(settings, rewriter, self.templates)
        self.totals = Totals()
        self._warming: threading.Thread | None = None

    def warm(self) -> None:
        """Begin to load the models that the first question would wait for: the embedding model and the reranker
        (`warming` until they are there), and that of languages."""
        threading.Thread(target=self.templates.language, args=("Which language?",), name="languages").start()
        mode = self.settings.retrieval.mode
        load = getattr(self.embedder, "load", None)
        loads = [load] if load is not None and mode in ("hybrid", "dense") else []
        if self.reranking is not None and mode != "none":
            loads.append(self.reranking.reranker.load)
        elif loads and isinstance(self.embedder, SentenceTransformerEmbedder) and self.embedder.device == "cpu":
            loads.append(partial(query_threads.settle, self.embedder))  # a reranker needs torch's threads meanwhile
        if loads:
            self._warming = threading.Thread(target=_tried, args=loads, name="embedding model")
            self._warming.start()

    @property
    def warming(self) -> bool:
        return self._warming is not None and self._warming.is_alive()

    def of(self, principal: Principal) -> Self:
        """A principal's view: the same service with the collections and answers that the principal may see."""
        view = copy.copy(self)
        view.principal = principal
        view.library = self.library.of(principal.tenant).only(principal.collections)
        return view

    @property
    def answers(self) -> AnswerReader:
        """The principal's answers."""
        return AnswerReader(
            self.principal,
            self.settings.answers,
            self.tokens,
            self.queue,
            self.sessions,
            self.redis,
            self._async_redis,
            self.renames,
            self.library,
        )

    @property
    def names(self) -> Names:
        """What collections are called that had another name before, as the principal may know it."""
        return self.renames.names(self.principal.tenant, self.principal.sees)

    async def close(self) -> None:
        self.library.close()
        self._ledger.close()
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
        self._forget(name, None)

    def rename_collection(self, name: str, new: str) -> Collection:
        """Rename a collection. Its conversations and its ingests that have ended are those of the new name.

        Raises:
            UnknownCollection, CollectionExists, CollectionInUse, InvalidName: as `Library.rename`.
            Conflict: an ingest of the collection is under way.
            QueueUnavailable: Redis or the database of the ingests is away; nothing was changed.
        """
        self.library.collection(name)
        self._check_idle(name)
        if self.settings.answers.store_tokens:
            erase_collection(self.redis, self.principal.tenant, name)
        with self.renames.recording(self.principal.tenant, name, new):
            renamed = self.library.rename(name, new)
            try:
                self._check_idle(name)  # one that was accepted meanwhile
            except BaseException:
                self.library.rename(new, name)
                raise
        with contextlib.suppress(QueueUnavailable):
            self.ingests.rename(self.principal.tenant, name, new)
        return renamed

    def _check_idle(self, name: str) -> None:
        for job_id in self.ingests.under_way(self.principal.tenant, name):
            raise Conflict(
                f"The ingest {job_id} of the collection {name!r} has not ended. Rename the collection when it has, or "
                "cancel it (`rag jobs cancel`).",
                "collection_in_use",
                job_id=job_id,
            )

    def delete_document(self, collection: Collection, document_id: str) -> None:
        """Delete a document, and its names in ingests that have ended. Raises UnknownDocument, UnknownCollection."""
        document = collection.get(document_id)
        collection.delete(document_id)
        self._forget(collection.name, {document.id, document.name, document.title} - {""})

    def _forget(self, collection: str, names: set[str] | None) -> None:
        """Documents are gone: forget the ids of the tenant's passages, and the names in ended ingests (None: all of the
        collection's). While Redis or the database is away these only expire."""
        with contextlib.suppress(QueueUnavailable):
            self.ingests.erase(self.principal.tenant, collection, names)
        with contextlib.suppress(QueueUnavailable):
            forget_passages(self.redis, self.principal.tenant)


def _reading(
    settings: Settings, tokens: Tokens | None, window: int | None, folder: Callable[[str], Path]
) -> tuple[Tokens, int]:
    """The tokenizer and the window of what answers, where they are not given."""
    if settings.endpoints:
        return tokens or own_tokens(), window or min(endpoint.window for endpoint in settings.endpoints)
    return tokens or Tokens.load(folder(settings.model)), window or window_of(folder(settings.model))


def _ledger(client: RedisClient, settings: Settings) -> JobLedger:
    try:
        return open_ledger(client, settings.uploads_folder, settings.store)
    except ValueError as error:
        raise InvalidSettings(f"{error}.") from None


def _tried(*loads: Callable[[], None]) -> None:
    for load in loads:
        try:
            load()
        except (EmbedderUnavailable, RerankerUnavailable) as error:  # searches say so, too
            log.error("%s", error)
