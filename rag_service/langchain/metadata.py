"""The metadata of an answer for LangChain: usage, origin, and citations as content annotations. Pure.

Importing this module registers a translator for messages of this provider: `message.content` stays a text, and
`message.content_blocks` carries the citations, as does `content` with `output_version="v1"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.block_translators import register_translator
from langchain_core.messages.content import Annotation, Citation, ContentBlock, TextContentBlock

from rag_service.contract.answer import Answer

PROVIDER = "rag-service"


def usage_metadata(usage: Mapping[str, Any] | None) -> UsageMetadata | None:
    """Token counts; `cache_read` counts the prompt tokens that were reused from an earlier turn."""
    if usage is None:
        return None
    counts = UsageMetadata(
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["completion_tokens"],
        total_tokens=usage["total_tokens"],
    )
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if cached is not None:
        counts["input_token_details"] = InputTokenDetails(cache_read=cached)
    return counts


def response_metadata(answer: Answer, model: str) -> dict[str, Any]:
    """The fields of an answer besides its text, as JSON."""
    fields = answer.model_dump(
        include={
            "answer_id", "session_id", "turn", "collection", "citations", "passages", "support", "sentences",
            "answerable", "calibrated", "abstained", "grounded", "note", "finish_reason", "seed", "timings",
            "speculation", "retrieval_query", "search_note", "passages_left", "turns_left", "turns_outdated",
            "turns_unsupported",
        }
    )  # fmt: skip
    return {"model_name": model, "model_provider": PROVIDER, **fields, "token_usage": answer.usage}


def cited(citations: Sequence[Mapping[str, Any]], passages: Sequence[Mapping[str, Any]]) -> list[Annotation]:
    """Citations as LangChain's annotations. `start_index` and `end_index` point into the answer, `extras` into the
    source: `collection`, `document_id`, `chunk_id`, `source_start`, `source_end` (code points of the document's text),
    `kind`.
    """
    by_chunk = {(passage.get("collection"), passage["chunk_id"]): passage for passage in passages}
    annotations: list[Annotation] = []
    for number, citation in enumerate(citations):
        annotation: dict[str, Any] = {
            "type": "citation",
            "id": f"citation-{number}",
            "start_index": citation["answer_start"],
            "end_index": citation["answer_end"],
            "extras": {
                name: citation[name]
                for name in ("collection", "document_id", "chunk_id", "source_start", "source_end", "kind")
                if name in citation
            },
        }
        if (passage := by_chunk.get((citation.get("collection"), citation["chunk_id"]))) is not None:
            start, end = (citation[name] - passage["source_start"] for name in ("source_start", "source_end"))
            annotation["title"] = passage["title"]
            annotation["cited_text"] = passage["text"][start:end]
            annotation["extras"] |= {
                name: passage[name] for name in ("date", "page", "heading", "rank") if passage.get(name)
            }
        annotations.append(cast(Citation, annotation))
    return annotations


def content_blocks(message: AIMessage) -> list[ContentBlock]:
    """A message's text with its citations as one block, then its tool calls."""
    metadata = message.response_metadata
    text = str(message.text)
    annotations = cited(metadata.get("citations") or (), metadata.get("passages") or ())
    blocks: list[ContentBlock] = []
    if text or annotations or not message.tool_calls:
        block = TextContentBlock(type="text", text=text)
        if annotations:
            block["annotations"] = annotations
        blocks.append(block)
    blocks += [cast(ContentBlock, {**call, "type": "tool_call"}) for call in message.tool_calls]
    return blocks


def chunk_blocks(message: AIMessageChunk) -> list[ContentBlock]:
    """As `content_blocks`, for a piece of a message or the sum of all."""
    if message.tool_call_chunks and message.chunk_position != "last":
        return [cast(ContentBlock, {**chunk, "type": "tool_call_chunk"}) for chunk in message.tool_call_chunks]
    return content_blocks(message)


register_translator(PROVIDER, content_blocks, chunk_blocks)
