"""From a question and the conversation before it to passages.

A follow-up is searched for in its rewritten form (`query_rewriter`), with the chunks of the last turn as candidates.
Knows collections and conversations; knows no prompts of answers and no HTTP.

Next: `Library.find` (`retriever/library.py`), and back to the pipeline.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.to_thread

from rag_service.access.principal import Principal
from rag_service.answering.search.query_rewriter import Rewritten
from rag_service.contract.collections import split
from rag_service.contract.schemas import RetrievalOptions
from rag_service.prompting.documents import listing
from rag_service.prompting.filter_words import in_words
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.rewriting.completion import bears_out
from rag_service.prompting.rewriting.standalone import Exchange, exchanges
from rag_service.prompting.template import Templates
from rag_service.settings import Settings
from retriever import Library, UnknownDocument
from retriever.languages import language_of
from retriever.search.fusion import MAX_TOP_K
from retriever.search.versions import Dated, in_force
from workers.broker.messages import TurnRecord

FEW_WORDS = 3
"""Of a question whose language they do not tell: "And in Hamburg?" is taken for German."""
SPARE = 2
"""So many times as many passages as wanted are looked at, since old versions of newer ones are left out."""


class Rewrites(Protocol):
    """The part of `query_rewriter.Rewriter` that retrieval needs."""

    async def rewrite(
        self,
        question: str,
        past: Sequence[Exchange],
        *,
        principal: Principal,
        session_id: str = "",
        collection: str | None = None,
        complete: bool = False,
    ) -> Rewritten: ...


@dataclass(frozen=True, slots=True)
class QuestionInContext:
    """A question in its conversation.

    Attributes:
        past: the exchanges before it, oldest first.
        session_id: "" if the client sends the history.
        candidates: (collection, id) of the chunks that the last search found, best first.
    """

    question: str
    past: Sequence[Exchange] = ()
    session_id: str = ""
    candidates: Sequence[tuple[str, str]] = ()

    @classmethod
    def in_session(cls, question: str, session_id: str, turns: Sequence[TurnRecord]) -> QuestionInContext:
        """Args: turns: those of the session, oldest first."""
        found = ([one for one in turn.passages if not one.get("earlier")] for turn in reversed(turns))
        last = next((passages for passages in found if passages), [])
        candidates = [(str(one.get("collection")), str(one["chunk_id"])) for one in last]
        return cls(question, exchanges(turns), session_id, candidates)

    def telling(self, asked: str) -> str:
        """A question, behind the one before it if its own words are too few to tell its language.

        Args:
            asked: the question, or its rewrite.
        """
        if not self.past or len(asked.split()) > FEW_WORDS:
            return asked
        return f"{self.past[-1].question} {asked}"


class Retrieval:
    """Finds passages for the questions of all tenants."""

    def __init__(self, settings: Settings, rewriter: Rewrites, templates: Templates) -> None:
        self._settings = settings
        self._rewriter = rewriter
        self._templates = templates
        self._threads = anyio.CapacityLimiter(2 * (os.cpu_count() or 1) + 2)
        """More searches at once would only wait for each other, and let the streams of answers wait."""

    def mode(self, options: RetrievalOptions) -> str:
        return options.mode or self._settings.retrieval.mode

    async def find(
        self,
        library: Library,
        principal: Principal,
        collection: str | None,
        options: RetrievalOptions,
        question: QuestionInContext,
        *,
        lists: bool = True,
    ) -> Retrieved:
        """Passages for a question; none without a collection, in mode `none`, and for a greeting or thanks.

        `collection` may name several. A question about one whole document gets all its passages. With `lists`, a
        question for a list of documents is answered here.

        Raises:
            UnknownCollection, EmbedderMismatch, InvalidQuery
        """
        mode = self.mode(options)
        if collection is None or mode == "none" or self._templates.is_greeting(question.question):
            return Retrieved()
        rewritten = Rewritten(question.question)
        past = [exchange for exchange in question.past if self._templates.asks(exchange.question)]
        if past and self._templates.is_revision(question.question):
            rewritten = Rewritten(past[-1].question)  # which the answer that is to be changed is about
        elif past and self._templates.is_doubt(question.question):
            rewritten = Rewritten(past[-1].question, 0.0)  # is asked again
        elif self._settings.retrieval.rewrite if options.rewrite is None else options.rewrite:
            rewritten = await self._rewriter.rewrite(
                question.question,
                past,
                principal=principal,
                session_id=question.session_id,
                collection=collection,
                complete=self._names_documents(question.question),
            )
        top_k = options.top_k or min(self._settings.retrieval.top_k, self._settings.limits.passages)

        names = split(collection)

        def search() -> Retrieved:
            if options.document_id is not None:
                return Retrieved(None, _whole(library, names, options.document_id), rewritten.ms, whole=True)
            meant = question.question if rewritten.joined else rewritten.query
            named = self._templates.asked("whole", meant) if options.filter is None else None
            if named is not None and (whole := library.named(names, named[0])):
                return Retrieved(rewritten.query, [asdict(one) for one in whole], rewritten.ms, whole=True)
            if lists and (listed := self._templates.asked("listing", meant)):
                words, template = listed
                look = partial(library.mentions, names, filter=options.filter)
                if looked_up := listing.looked_up(words, template, look):
                    phrases, joint, mentions = looked_up
                    cited = [asdict(one.passage) for one in mentions.found[: listing.MOST]]
                    answer = listing.stated(phrases, joint, mentions, template)
                    return Retrieved(words, cited, rewritten.ms, stated=answer)
            found = found_for(rewritten.query)
            if rewritten.completed:
                as_typed = found_for(question.question)
                if not bears_out(rewritten.query, question.question, (*found.passages, *as_typed.passages)):
                    return as_typed
            return found

        def found_for(query: str) -> Retrieved:
            language = language_of(query)
            found = library.find(
                names,
                query,
                min(SPARE * top_k, MAX_TOP_K),
                mode,  # type: ignore[arg-type]
                options.filter,
                candidates=question.candidates,
                language=language,
            )
            current = in_force(found.passages, Dated.of, query, language)[:top_k]
            passages = [asdict(replace(passage, rank=rank)) for rank, passage in enumerate(current, start=1)]
            return Retrieved(query, passages, rewritten.ms, {} if found.margin is None else {"margin": found.margin})

        started = time.perf_counter()
        found = await anyio.to_thread.run_sync(search, limiter=self._threads)
        search_ms = 1e3 * (time.perf_counter() - started)
        filtered = in_words(options.filter) if options.filter and not found.passages else ""
        told = replace(found, not_rewritten=rewritten.failure, joined=rewritten.joined)
        return replace(told, search_ms=search_ms, filtered=filtered)

    def _names_documents(self, question: str) -> bool:
        """Whether a question asks for whole documents, or for a list of them."""
        return any(self._templates.asked(kind, question) for kind in ("whole", "listing"))


def _whole(library: Library, names: Sequence[str], document_id: str) -> list[dict[str, Any]]:
    """All passages of a document of one of the collections. Raises UnknownDocument."""
    for name in names[:-1]:
        with contextlib.suppress(UnknownDocument):
            return [asdict(one) for one in library.collection(name).whole(document_id)]
    return [asdict(one) for one in library.collection(names[-1]).whole(document_id)]
