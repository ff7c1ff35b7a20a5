"""A collection as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from rag_service.client import AsyncRagClient, RagClient, Retries
from rag_service.contract.answer import PassageOut

SHOWN = frozenset({"title", "date", "page", "heading"})
"""Metadata that LlamaIndex puts before a node's text, in prompts and for embeddings."""


class RagServiceRetriever(BaseRetriever):
    """The best passages of a collection, best first.

    A node has the passage's text; its metadata holds the passage's place: `collection`, `document_id`, `chunk_id`,
    `title`, `date`, `page`, `heading`, `source_start` and `source_end` (code points in the document's text), `score`,
    `rank` and `rerank_score`; what a passage lacks is left out. `node.ref_doc_id` is the document's id. The node's
    score is `rerank_score` if all passages have one, else `score`: higher is better.

    Args:
        k: number of passages; None: as the service is set.
        filter: metadata names, and the exact values that documents must have.
        neighbours: chunks before and after each passage that come with it, 0 to 5.
        section: whether the section that a passage is in comes with it.
        base_url, api_key, timeout: as in `RagClient`.
        max_retries: how often a request is sent again that was rejected (429, 503) or never arrived.

    Raises (when called):
        RagError: `rag_service.client` has the tree.
    """

    def __init__(
        self,
        collection: str = "default",
        *,
        k: int | None = None,
        mode: Literal["hybrid", "dense", "lexical"] = "hybrid",
        filter: Mapping[str, Any] | None = None,
        neighbours: int = 0,
        section: bool = False,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)
        self.collection = collection
        self._search: dict[str, Any] = {
            "top_k": k, "mode": mode, "filter": filter, "neighbours": neighbours, "section": section
        }  # fmt: skip
        self._service: dict[str, Any] = {
            "base_url": base_url, "api_key": api_key, "timeout": timeout, "retries": Retries(max_retries)
        }  # fmt: skip

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with RagClient(**self._service) as rag:
            return _nodes(rag.search(self.collection, query_bundle.query_str, **self._search), self.collection)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        async with AsyncRagClient(**self._service) as rag:
            found = await rag.search(self.collection, query_bundle.query_str, **self._search)
        return _nodes(found, self.collection)


def _nodes(passages: list[PassageOut], collection: str) -> list[NodeWithScore]:
    reranked = all(passage.rerank_score is not None for passage in passages)
    return [
        NodeWithScore(node=_node(passage, collection), score=passage.rerank_score if reranked else passage.score)
        for passage in passages
    ]


def _node(passage: PassageOut, collection: str) -> TextNode:
    metadata = passage.model_dump(exclude={"text", "in_prompt", "earlier", "changed"}, exclude_none=True)
    metadata["collection"] = collection
    hidden = sorted(set(metadata) - SHOWN)
    return TextNode(
        id_=passage.chunk_id,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
        start_char_idx=passage.source_start,
        end_char_idx=passage.source_end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=passage.document_id)},
    )
