"""Histories that the caller keeps, answered by /v1/chat/completions: the request, and its chunks. Knows no session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolCallChunk,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call_chunk

from rag_service.client import AsyncRagClient, RagClient, RagConnectionError
from rag_service.client.errors import AnswerFailed
from rag_service.client.events import ServerEvent
from rag_service.langchain.answers import Ending
from rag_service.langchain.metadata import PROVIDER, usage_metadata

PATH = "/v1/chat/completions"
Piece = str | ToolCallChunk
"""Text, or a part of a tool call."""


def completion(messages: Sequence[BaseMessage], model: str, sampling: dict[str, Any]) -> dict[str, Any]:
    """The body of a streaming request."""
    if isinstance(prediction := sampling.get("prediction"), str):
        sampling = {**sampling, "prediction": {"type": "content", "content": prediction}}
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": model, "messages": [_message(message) for message in messages], **sampling, **stream}


def stream_completion(rag: RagClient, body: dict[str, Any]) -> Generator[Piece | Ending]:
    """Texts and tool calls as they come, then the `Ending`. Such a stream cannot be resumed."""
    chunks = CompletionChunks(str(body["model"]))
    with contextlib.closing(rag.unresumed(PATH, body)) as events:
        for event in events:
            yield from chunks.add(event)
    yield chunks.ending()


async def astream_completion(rag: AsyncRagClient, body: dict[str, Any]) -> AsyncGenerator[Piece | Ending]:
    """As `stream_completion`."""
    chunks = CompletionChunks(str(body["model"]))
    async with contextlib.aclosing(rag.unresumed(PATH, body)) as events:
        async for event in events:
            for piece in chunks.add(event):
                yield piece
    yield chunks.ending()


class CompletionChunks:
    """The chunks of a completion so far."""

    def __init__(self, model: str) -> None:
        self._metadata: dict[str, Any] = {"model_name": model, "model_provider": PROVIDER}
        self._usage: dict[str, Any] | None = None
        self._complete = False

    def add(self, event: ServerEvent) -> list[Piece]:
        """The pieces of a chunk.

        Raises:
            AnswerFailed: the chunk says that the answer failed.
        """
        if not isinstance(event.data, dict):
            self._complete = self._complete or event.data == "[DONE]"
            return []
        chunk: dict[str, Any] = event.data
        if "error" in chunk:
            raise AnswerFailed(int(chunk.get("status") or 500), chunk)
        self._metadata.setdefault("id", chunk.get("id"))
        self._usage = chunk.get("usage") or self._usage
        pieces: list[Piece] = []
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta", {})
            if text := delta.get("content"):
                pieces.append(text)
            for call in delta.get("tool_calls") or ():
                name, arguments = call["function"].get("name"), call["function"].get("arguments")
                pieces.append(tool_call_chunk(name=name, args=arguments, id=call.get("id"), index=call["index"]))
            fields = {**chunk, **choice, **delta}
            self._metadata |= {name: fields[name] for name in _METADATA if fields.get(name) is not None}
        return pieces

    def ending(self) -> Ending:
        """Raises RagConnectionError if the stream ended before the answer did."""
        if not self._complete:
            raise RagConnectionError("The stream ended before the answer did. Ask again.", sent=True)
        return Ending({**self._metadata, "token_usage": self._usage}, usage_metadata(self._usage))


_METADATA = (
    "answer_id", "citations", "passages", "support", "sentences", "answerable", "calibrated", "abstained", "grounded",
    "note", "finish_reason", "seed", "speculation", "timings", "system_fingerprint", "retrieval_query",
    "search_note",
)  # fmt: skip


def text_of(message: BaseMessage) -> str:
    """A message's text.

    Raises:
        ValueError: it contains something other than text, such as an image.
    """
    if isinstance(message.content, list):
        kinds = {str(part.get("type")) for part in message.content if isinstance(part, dict)}
        if other := sorted(kinds - _READ):
            raise ValueError(f"rag-service reads only text; leave out {', '.join(other)}")
    return str(message.text)


_READ = {"text", "text-plain", "tool_call", "tool_use", "reasoning"}
"""Parts of a message that are allowed. Tool calls are read from `tool_calls`; reasoning is left out."""


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["args"], ensure_ascii=False)}
    return {"id": call["id"], "type": "function", "function": function}


def _message(message: BaseMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": text_of(message)}
    match message:
        case HumanMessage():
            fields["role"] = "user"
        case AIMessage():
            fields["role"] = "assistant"
            if message.tool_calls:
                fields["tool_calls"] = [_call(call) for call in message.tool_calls]
        case SystemMessage():
            fields["role"] = "system"
        case ToolMessage():
            fields |= {"role": "tool", "tool_call_id": message.tool_call_id}
        case ChatMessage():
            fields["role"] = message.role
        case _:
            raise ValueError(f"rag-service takes system, human, AI and tool messages, not {type(message).__name__}")
    if message.name:
        fields["name"] = message.name
    return fields
