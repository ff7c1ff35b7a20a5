"""From a question and the conversation before it to passages.

A follow-up is looked for by what it means (`query_rewriter`), and what the last turn found stays among the candidates.
Knows collections and conversations; knows no prompts of answers and no HTTP.

Next: `Collection.search` (`retriever/collection.py`), and back to the pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import anyio.to_thread

from rag_service.access.principal import Principal
from rag_service.answering.query_rewriter import Rewritten
from rag_service.contract.schemas import RetrievalOptions
from rag_service.prompting.found import Found
from rag_service.prompting.standalone import Exchange, exchanges
from rag_service.settings import Settings
from retriever import Library
from workers.broker.messages import TurnRecord


class Rewrites(Protocol):
    """What this module asks of `query_rewriter.Rewriter`."""

    async def rewrite(
        self, question: str, past: Sequence[Exchange], *, whose: Principal, session_id: str = ""
    ) -> Rewritten: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in its conversation.

    Attributes:
        past: what was said before it, oldest first.
        session_id: "" for a history that a client sends.
        candidates: ids of the chunks that the last turn found, best first.
    """

    question: str
    past: Sequence[Exchange] = ()
    session_id: str = ""
    candidates: Sequence[str] = ()

    @classmethod
    def in_session(cls, question: str, session_id: str, turns: Sequence[TurnRecord]) -> Asked:
        """Args: turns: of the session, oldest first."""
        last = turns[-1].passages if turns else []
        found = [str(passage["chunk_id"]) for passage in last if not passage.get("earlier")]
        return cls(question, exchanges(turns), session_id, found)


class Retrieval:
    """How passages are found for questions of all tenants."""

    def __init__(self, settings: Settings, rewriter: Rewrites) -> None:
        self._settings = settings
        self._rewriter = rewriter

    def mode(self, options: RetrievalOptions) -> str:
        return options.mode or self._settings.retrieval.mode

    async def find(
        self, library: Library, whose: Principal, collection: str | None, options: RetrievalOptions, asked: Asked
    ) -> Found:
        """Passages for a question; none where there is no collection, or the mode is `none`.

        Raises:
            UnknownCollection, EmbedderMismatch, InvalidQuery
        """
        mode = self.mode(options)
        if collection is None or mode == "none":
            return Found()
        rewritten = Rewritten(asked.question)
        if self._settings.retrieval.rewrite if options.rewrite is None else options.rewrite:
            rewritten = await self._rewriter.rewrite(
                asked.question, asked.past, whose=whose, session_id=asked.session_id
            )
        top_k = options.top_k or min(self._settings.retrieval.top_k, self._settings.limits.passages)

        def search() -> list[dict[str, Any]]:
            found = library.collection(collection).search(
                rewritten.query,
                top_k,
                mode,  # type: ignore[arg-type]
                options.filter,
                candidates=asked.candidates,
            )
            return [asdict(passage) for passage in found]

        return Found(rewritten.query, await anyio.to_thread.run_sync(search), rewritten.ms)
