"""The Celery tasks: what a worker does with a message from the queue.

Knows how errors become events and when a task goes back to the queue; `generation` and `ingestion` do the work. A
message carries an answer's owner and id; the record has the rest.

Next: `generate` (`generation.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject

from decoder import PromptError, PromptTooLong, UnknownDrafter
from decoder.errors import InvalidToken
from retriever import Library
from workers.broker import keys
from workers.broker.app import INGEST_TASK, LAPSE_S, RedisClient
from workers.broker.messages import ErrorEvent, GenerateJob
from workers.errors import AnswerMissing, QueueUnavailable, RuntimeClosed, is_out_of_memory, unavailable
from workers.grammar.grammars import Grammars
from workers.ingests.open_ledger import open_ledger
from workers.ingests.queue import IngestQueue
from workers.ingests.runner import IngestRunner
from workers.sessions import costs, erased
from workers.sessions.answer_store import AnswerStore
from workers.sessions.passage_ids import PassageIds
from workers.sessions.routing import share
from workers.sessions.streams import ANSWER_TTL_S, SESSION_TTL_S, AnswerStream
from workers.support.calibration import Calibration
from workers.tokens.tokenizer import Tokens
from workers.upstream.answer import UpstreamAnswers
from workers.upstream.errors import UpstreamError
from workers.upstream.runtime import UpstreamRuntime
from workers.worker.cancels import CancelWatch
from workers.worker.generation import generate
from workers.worker.kv_store import KvStore, answer_of, session_of
from workers.worker.leases import Leases
from workers.worker.runtime import Runtime
from workers.worker.supporter import Supporter
from workers.worker.unfinished import Unfinished

log = logging.getLogger(__name__)

MOST_LOST = 8
"""Workers that may vanish over one answer before it fails."""


@dataclass
class WorkerContext:
    """The shared state of a worker process's tasks."""

    client: RedisClient
    tokens: Tokens
    runtime: Runtime | UpstreamRuntime
    library: Library | None
    uploads_dir: Path
    name: str = "worker"
    """The worker's name, as in its heartbeat."""
    model: str = ""
    """Name of our own engine's model, under which its tokens are counted."""
    answer_ttl_s: int = ANSWER_TTL_S
    session_ttl_s: int = SESSION_TTL_S
    usage_days: int = costs.DAYS
    """Days for which the tokens that a tenant's answers cost are kept."""
    store_tokens: int = 0
    """Tokens of earlier answers to copy from, for each collection; 0 stores none."""
    lapse_s: int = LAPSE_S
    """Seconds of silence after which another worker's tasks are reclaimed."""
    supporter: Supporter | None = None
    """Computes the support of our own engine's answers; None computes none."""
    calibration: Calibration | None = None
    """The operator's, for the support of a model server's answers."""
    store_url: str | None = None
    """The PostgreSQL that has ingests; None: Redis and `uploads_dir` have them."""

    def __post_init__(self) -> None:
        self.cancels = CancelWatch(self.client)
        self.grammars = Grammars(self.tokens)
        self.passage_ids = PassageIds(self.client, self.tokens)
        self.unfinished = Unfinished(self.client)
        self.leases = Leases(self.client, self.name, self.lapse_s)
        self.ledger = open_ledger(self.client, self.uploads_dir, self.store_url, self.lapse_s)
        self.kv_store = self.runtime.store if isinstance(self.runtime, Runtime) else KvStore(0)
        closing = self.runtime.closing.is_set
        self.ingests = IngestRunner(self.ledger, self.library, self.passage_ids, self.name, closing)
        self.store = AnswerStore(self.client, self.store_tokens, self.session_ttl_s) if self.store_tokens else None

    def stream(self, owner: str, answer_id: str) -> AnswerStream:
        return AnswerStream(
            self.client,
            owner,
            answer_id,
            ttl_s=self.answer_ttl_s,
            session_ttl_s=self.session_ttl_s,
            worker=self.name if self.kv_store.on else "",
            usage_days=self.usage_days,
        )

    def state(self) -> dict[str, Any]:
        """The changing part of the worker's information."""
        return {"running": self.runtime.answers, "kv_cache": self.kv_store.state()}

    def generate(self, job: GenerateJob, stream: AnswerStream, cancelled: Callable[[], bool]) -> None:
        """Generate an answer by the worker's engine. Raises what `generate` and `UpstreamAnswers.generate` raise."""
        if isinstance(self.runtime, UpstreamRuntime):
            answers = UpstreamAnswers(self.runtime, self.tokens, self.passage_ids, self.calibration)
            answers.generate(job, stream, cancelled)
        else:
            generate(
                job,
                stream,
                self.runtime,
                self.tokens,
                cancelled,
                self.store,
                self.grammars,
                self.passage_ids,
                self.supporter,
                self.model,
            )

    def after_beat(self, app: Celery) -> None:
        """Reclaim tasks and jobs of vanished or busy workers, and delete the rows of erased sessions.

        Raises:
            QueueUnavailable: Redis is away.
        """
        look = self.ingests.recover if self.store_url is None else self.ingests.recover_apart
        for due in (
            lambda: self.leases.reclaim(app),
            lambda: self.unfinished.resend_lost(app),
            lambda: look(IngestQueue(app, self.client, self.ledger)),
            lambda: share(self.client, self.name),
            self._forget_erased,
            lambda: erased.rewrite(self.client),
        ):
            try:
                due()
            except QueueUnavailable:
                raise
            except Exception:  # the others still run
                log.exception("a task after the heartbeat failed")

    def _forget_erased(self) -> None:
        if isinstance(self.runtime, Runtime) and (owners := self.kv_store.owners()):
            with unavailable(), self.client.pipeline(transaction=False) as pipe:
                for owner, session in owners:
                    answer = answer_of(session)
                    pipe.exists(keys.answer(owner, answer) if answer else keys.session(owner, session_of(session)))
                existing = pipe.execute()
            for (owner, session), exists in zip(owners, existing, strict=True):
                if not exists:
                    self.runtime.forget(owner, session)

    def close(self) -> None:
        """Stop the engine and the watch; running tasks go back to the queue."""
        self.runtime.close()
        self.ingests.close()
        self.ledger.close()
        self.cancels.close()


def register(app: Celery, context: WorkerContext) -> None:
    """Register the tasks in the application, bound to this worker's context."""

    def generate_answer(owner: str, answer_id: str) -> None:
        with _requeued(), context.leases.hold(keys.GENERATE_TASK, owner, answer_id) as leased:
            if leased:
                run_generate(context, owner, answer_id)

    def ingest_documents(*_: str) -> None:
        with _requeued():
            context.ingests.run()

    app.task(name=keys.GENERATE_TASK, shared=False)(generate_answer)
    app.task(name=INGEST_TASK, shared=False)(ingest_documents)


@contextmanager
def _requeued() -> Iterator[None]:
    """Returns a task that cannot continue here to the queue."""
    try:
        yield
    except (RuntimeClosed, QueueUnavailable) as error:
        raise Reject(str(error), requeue=True) from None


def run_generate(context: WorkerContext, owner: str, answer_id: str) -> None:
    """Generate one answer; any error of its own becomes an error event.

    Raises:
        RuntimeClosed, QueueUnavailable: this worker cannot continue; another one can.
    """
    stream = context.stream(owner, answer_id)
    try:
        record = stream.record()
    except ValueError:
        log.exception("the record of answer %s cannot be read", answer_id)
        stream.finish(
            ErrorEvent(code="internal_error", detail="the worker cannot read this answer's record; ask again")
        )
        return
    if record is None:
        log.info("answer %s was erased before it started", answer_id)
        stream.forget()  # the record may still exist, without its texts
        return
    if record["lost"] >= MOST_LOST:
        detail = f"{MOST_LOST} workers ended while they wrote this answer; ask something else, and see their logs"
        log.error("answer %s fails: %s", answer_id, detail)
        stream.finish(ErrorEvent(code="internal_error", detail=detail), session_id=record["job"].session_id)
        return
    try:
        with context.cancels.watch(keys.answer_cancel(owner, answer_id)) as cancelled:
            context.generate(record["job"], stream, cancelled.is_set)
    except (RuntimeClosed, QueueUnavailable):
        raise
    except Exception as error:
        event = error_event(error)
        internal = event.code == "internal_error"
        log.log(
            logging.ERROR if internal else logging.WARNING,
            "answer %s failed: %s",
            answer_id,
            event.detail,
            exc_info=internal,
        )
        try:
            stream.finish(event, session_id=record["job"].session_id)
        except AnswerMissing:
            log.info("answer %s was erased meanwhile", answer_id)


def error_event(error: Exception) -> ErrorEvent:
    """The event for an answer that failed: a stable code and a sentence.

    Codes: prompt_too_long, unknown_drafter, invalid_request, out_of_memory, internal_error; and of model servers,
    those of `UpstreamError`.
    """
    if isinstance(error, PromptTooLong):
        return ErrorEvent(code="prompt_too_long", detail=str(error))
    if isinstance(error, UnknownDrafter):
        return ErrorEvent(code="unknown_drafter", detail=str(error))
    if isinstance(error, UpstreamError):
        return ErrorEvent(code=error.code, detail=error.detail, retry_after=error.retry_after)
    if is_out_of_memory(error):
        return ErrorEvent(
            code="out_of_memory",
            detail="the worker ran out of memory for this answer; shorten the prompt, lower max_tokens, "
            "or try again when less is running",
        )
    if isinstance(error, InvalidToken):  # prompts are tokenized here: ids of others are those of earlier answers
        detail = "the answer or its session was begun with another model, whose tokens are others; ask again"
        return ErrorEvent(code="invalid_request", detail=detail)
    if isinstance(error, PromptError | ValueError):
        return ErrorEvent(code="invalid_request", detail=str(error))
    return ErrorEvent(
        code="internal_error",
        detail=f"the worker failed while generating ({type(error).__name__}); try again, and see the worker's log",
    )
