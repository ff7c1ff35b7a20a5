"""A collection as a LangChain retriever."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from rag_service.contract.schemas import PassageOut
from rag_service.langchain.service import Service


class RagServiceRetriever(Service, BaseRetriever):
    """The best passages of a collection. `k`, `mode` and `filter` can be given with a call as well.

    Each document's text is the passage's; its metadata says where that stands: `collection`, `document_id`,
    `chunk_id`, `title`, `page`, `heading`, `source_start` and `source_end` (code points in the document's text),
    `score` and `rank`.

    Raises (when called):
        RagError: `rag_service.client` has the tree.
    """

    collection: str = "default"
    k: int | None = Field(default=None, ge=1)
    """Most passages; None: as the service is set."""
    mode: Literal["hybrid", "dense", "lexical"] = "hybrid"
    filter: dict[str, Any] | None = None
    """Metadata names and the exact values a document must have."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        with self.client() as rag:
            collection, options = self._asked(given)
            return _documents(rag.search(collection, query, **options), collection)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        async with self.async_client() as rag:
            collection, options = self._asked(given)
            return _documents(await rag.search(collection, query, **options), collection)

    def _asked(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        unknown = sorted(set(given) - {"collection", "k", "mode", "filter"})
        if unknown:
            raise TypeError(f"a search takes collection, k, mode and filter, not {', '.join(unknown)}")
        options = {
            "top_k": given.get("k", self.k),
            "mode": given.get("mode", self.mode),
            "filter": given.get("filter", self.filter),
        }
        return given.get("collection", self.collection), options


def _documents(passages: list[PassageOut], collection: str) -> list[Document]:
    kept = {"text", "in_prompt", "earlier"}
    return [
        Document(
            id=passage.chunk_id,
            page_content=passage.text,
            metadata={"collection": collection, **passage.model_dump(exclude=kept)},
        )
        for passage in passages
    ]
