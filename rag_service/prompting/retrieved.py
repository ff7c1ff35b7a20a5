"""The passages retrieved for a question, as prompts are built from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rag_service.prompting.rewriting.follow_up import looks_back, names_nothing, needs_rewriting, speaks_of_answer
from retriever.languages import language_of
from workers.broker.messages import NotRewritten, Stated


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The search and its passages.

    Attributes:
        query: the text that was searched for; None without a search.
        passages: best first, in the form that jobs carry.
        signals: the `margin` of the search (`retriever/search/standout.py`), if it gave one.
        rewrite_ms: time of rewriting the question; None if it was not tried.
        stated: the answer, if the search is all it takes.
        whole: whether the passages are those of one document, in its order.
        search_ms: time of the search, with waiting for its turn; None without a search.
        not_rewritten: why there was no rewrite, although there was to be one.
        filtered: the filter of a search that found nothing, in words; "" for any other search.
        joined: whether the question before was searched for, too; the model has it in the conversation.
    """

    query: str | None = None
    passages: list[dict[str, Any]] = field(default_factory=list)
    rewrite_ms: float | None = None
    signals: dict[str, float] = field(default_factory=dict)
    stated: Stated | None = None
    whole: bool = False
    search_ms: float | None = None
    not_rewritten: NotRewritten | None = None
    filtered: str = ""
    joined: bool = False

    def in_full(self, question: str) -> str:
        """A question as the model reads it: a follow-up in the words that stand alone, if it was rewritten."""
        return question if self.rewrite_ms is None or self.query is None or self.joined else self.query

    def stands_alone(self, question: str) -> bool:
        """Whether a question, as the model reads it, can be understood without the conversation."""
        if self.joined or looks_back(question) or speaks_of_answer(question):
            return False
        if self.in_full(question) != question:
            return True
        left_as_it_is = self.rewrite_ms is not None and self.not_rewritten is None
        return not needs_rewriting(question) and (left_as_it_is or not names_nothing(question, language_of(question)))

    @property
    def read(self) -> list[dict[str, Any]]:
        """The passages that the model reads; none if it does not answer."""
        return [] if self.stated else self.passages
