"""A collection as a LangChain retriever."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from rag_service.contract.answer import PassageOut
from rag_service.langchain.service import Service


class RagServiceRetriever(Service, BaseRetriever):
    """The best passages of a collection. Its fields from `collection` to `section` are also options of every call.

    A document has the passage's text; its metadata holds the passage's place: `collection`, `document_id`,
    `chunk_id`, `title`, `date`, `page`, `heading`, `source_start` and `source_end` (code points in the document's
    text), `score`, `rank` and `rerank_score` (None without a reranker).

    Raises (when called):
        RagError: `rag_service.client` has the tree.
    """

    collection: str = "default"
    k: int | None = Field(default=None, ge=1)
    """Number of passages; None: as the service is set."""
    mode: Literal["hybrid", "dense", "lexical"] = "hybrid"
    filter: dict[str, Any] | None = None
    """Metadata names, and the exact values that documents must have."""
    neighbours: int = Field(default=0, ge=0, le=5)
    """Chunks before and after each passage that come with it."""
    section: bool = False
    """Whether the section that a passage is in comes with it."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        with self.client() as rag:
            collection, options = self._search_options(kwargs)
            return _documents(rag.search(collection, query, **options), collection)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        async with self.async_client() as rag:
            collection, options = self._search_options(kwargs)
            return _documents(await rag.search(collection, query, **options), collection)

    def _search_options(self, kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        unknown = sorted(set(kwargs) - {"collection", "k", "mode", "filter", "neighbours", "section"})
        if unknown:
            taken = "collection, k, mode, filter, neighbours and section"
            raise TypeError(f"a search takes {taken}, not {', '.join(unknown)}")
        options = {
            "top_k": kwargs.get("k", self.k),
            "mode": kwargs.get("mode", self.mode),
            "filter": kwargs.get("filter", self.filter),
            "neighbours": kwargs.get("neighbours", self.neighbours),
            "section": kwargs.get("section", self.section),
        }
        return kwargs.get("collection", self.collection), options


def _documents(passages: list[PassageOut], collection: str) -> list[Document]:
    omitted = {"text", "in_prompt", "earlier", "changed"}
    return [
        Document(
            id=passage.chunk_id,
            page_content=passage.text,
            metadata={**passage.model_dump(exclude=omitted), "collection": collection},
        )
        for passage in passages
    ]
