"""Checks before a worker gets a request. Knows limits, workers and queues; knows no sessions and no prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_service.answering import engine_limits
from rag_service.contract.schemas import EditRequest, QueryRequest
from rag_service.errors import InvalidRequest, Overloaded, TooLarge, no_worker
from rag_service.prompting.conversation import Conversation
from rag_service.prompting.generation_options import speculation
from rag_service.settings import Settings
from workers.broker.capabilities import Capabilities
from workers.broker.messages import GenerateJob
from workers.ingests.queue import IngestQueue
from workers.sessions.queue import Queue
from workers.tokens.tokenizer import Tokens


class Admission:
    """Checks of requests, by the service's limits."""

    def __init__(self, settings: Settings, tokens: Tokens, queue: Queue, ingests: IngestQueue) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._tokens = tokens
        self._queue = queue
        self._ingests = ingests

    def check(self, request: QueryRequest | EditRequest | Conversation) -> None:
        """Reject a request that is too large or names token ids that the model does not have.

        Raises:
            TooLarge, InvalidRequest
        """
        if isinstance(request, QueryRequest | Conversation):
            if isinstance(request, QueryRequest) or request.collection is not None:
                self.check_question(request.question)
            self.check_top_k(request.retrieval.top_k)
            self._check_prediction(request.predicted or "")
        else:
            self.check_question(request.instruction, "instruction")
        unknown = [token for token in request.logit_bias if int(token) >= self._tokens.vocab_size]
        if unknown:
            last = self._tokens.vocab_size - 1
            raise InvalidRequest(f"The logit_bias names token id {unknown[0]}; the ids of this model are 0 to {last}.")

    def engine(self, collection: str | None) -> Capabilities:
        """What the engine can do that answers from a collection, or without one (None)."""
        return engine_limits.capabilities_of(self._settings, self._settings.upstream_of(collection))

    def check_engine(self, request: QueryRequest | EditRequest | Conversation, collection: str | None) -> None:
        """Reject a request that asks for what the engine lacks. Asks the workers where they know it.

        Raises:
            BadRequest: `not_supported_by_engine`.
            InvalidRequest: the drafter needs what no worker has.
        """
        engine = self.engine(collection)
        engine_limits.check(request, engine, request.exact == "bitwise" and self._bitwise())
        if engine.engine == "decoder" and request.speculation is not None:
            drafter = speculation(request, self._settings.drafter).drafter
            engine_limits.check_drafter(drafter, self._settings, self.matching(self._queue.workers()))

    def _bitwise(self) -> bool:
        """Whether every worker promises bitwise passes: by the setting, or by what each found at its start."""
        if self._settings.exact != "auto":
            return self._settings.exact == "bitwise"
        workers = self.matching(self._queue.workers())
        return all(worker.get("exact") == "bitwise" for worker in workers)

    def check_token_ids(self, job: GenerateJob) -> None:
        """Reject reading an answer's token ids where they are not its model's. Raises BadRequest."""
        engine_limits.check_token_ids(engine_limits.capabilities_of(self._settings, job.upstream))

    def check_question(self, question: str, name: str = "question") -> None:
        """Args: name: the field's name, for the message."""
        most = self._limits.question_chars
        if len(question) > most:
            raise TooLarge(
                f"The {name} has {len(question):,} characters; send at most {most:,}, and ingest long texts as "
                "documents.",
                f"{name}_too_long",
            )

    def check_top_k(self, top_k: int | None) -> None:
        if top_k is not None and top_k > self._limits.passages:
            raise InvalidRequest(f"The top_k is {top_k}; retrieve at most {self._limits.passages} passages.")

    def check_capacity(self) -> None:
        """Reject a request that no worker could answer soon.

        Raises:
            Unavailable: no worker runs (with this process's model), or Redis is away.
            Overloaded: too many answers wait.
        """
        self._check_waiting(self._queue.depth, "answers")

    def check_ingests(self, tenant: str) -> None:
        """As `check_capacity`, for one more ingest of a tenant."""
        self._check_waiting(lambda: self._ingests.waiting(tenant), "ingests")

    def _check_waiting(self, count: Callable[[], int], what: str) -> None:
        if not self.matching(self._queue.workers()):
            raise no_worker()
        waiting = count()
        if waiting >= self._limits.queued:
            raise Overloaded(
                f"{waiting} {what} already wait for a worker. Try again shortly, or start more workers.", retry_after=5
            )

    def matching(self, workers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The workers with this process's tokenizer: only to them do prompts and citations mean the same."""
        return [worker for worker in workers if worker.get("tokenizer", self._tokens.hash) == self._tokens.hash]

    def _check_prediction(self, prediction: str) -> None:
        most = self._limits.prediction_chars
        if len(prediction) > most:
            raise TooLarge(
                f"The prediction has {len(prediction):,} characters; send at most {most:,}.", "prediction_too_long"
            )
