"""A history that the client keeps, answered by /v1/chat/completions: what is sent, and what its chunks say.

Knows messages of both sides; knows no session.
"""

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
"""Text, or a part of a call of a tool."""


def completion(messages: Sequence[BaseMessage], model: str, sampling: dict[str, Any]) -> dict[str, Any]:
    """The body of a request that streams."""
    said = [_message(message) for message in messages]
    if isinstance(prediction := sampling.get("prediction"), str):
        sampling = {**sampling, "prediction": {"type": "content", "content": prediction}}
    return {"model": model, "messages": said, **sampling, "stream": True, "stream_options": {"include_usage": True}}


def stream_completion(rag: RagClient, body: dict[str, Any]) -> Generator[Piece | Ending]:
    """Texts and calls of tools as they come, then the `Ending`. Such a stream cannot be taken up again."""
    reading = Reading(str(body["model"]))
    with contextlib.closing(rag.unresumed(PATH, body)) as events:
        for event in events:
            yield from reading.take(event)
    yield reading.ending()


async def astream_completion(rag: AsyncRagClient, body: dict[str, Any]) -> AsyncGenerator[Piece | Ending]:
    """As `stream_completion`."""
    reading = Reading(str(body["model"]))
    async with contextlib.aclosing(rag.unresumed(PATH, body)) as events:
        async for event in events:
            for piece in reading.take(event):
                yield piece
    yield reading.ending()


class Reading:
    """What the chunks of a completion have said so far."""

    def __init__(self, model: str) -> None:
        self._known: dict[str, Any] = {"model_name": model, "model_provider": PROVIDER}
        self._usage: dict[str, Any] | None = None
        self._complete = False

    def take(self, event: ServerEvent) -> list[Piece]:
        """What a chunk adds.

        Raises:
            AnswerFailed: it says that the answer failed.
        """
        if not isinstance(event.data, dict):
            self._complete = self._complete or event.data == "[DONE]"
            return []
        chunk: dict[str, Any] = event.data
        if "error" in chunk:
            raise AnswerFailed(int(chunk.get("status") or 500), chunk)
        self._known.setdefault("id", chunk.get("id"))
        self._usage = chunk.get("usage") or self._usage
        pieces: list[Piece] = []
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta", {})
            if text := delta.get("content"):
                pieces.append(text)
            for call in delta.get("tool_calls") or ():
                told = call["function"]
                pieces.append(
                    tool_call_chunk(
                        name=told.get("name"), args=told.get("arguments"), id=call.get("id"), index=call["index"]
                    )
                )
            known = {**chunk, **choice, **delta}
            self._known |= {name: known[name] for name in _TOLD if known.get(name) is not None}
        return pieces

    def ending(self) -> Ending:
        """Raises RagConnectionError where the stream ended before the answer did."""
        if not self._complete:
            raise RagConnectionError("The stream ended before the answer did; ask again.", sent=True)
        known = {**self._known, "token_usage": self._usage}
        return Ending(known, usage_metadata(self._usage))


_TOLD = (
    "answer_id", "citations", "passages", "grounded", "note", "finish_reason", "seed", "speculation", "timings",
    "system_fingerprint", "retrieval_query",
)  # fmt: skip


def text_of(message: BaseMessage) -> str:
    """A message's text.

    Raises:
        ValueError: it holds something else, such as an image.
    """
    if isinstance(message.content, list):
        kinds = {str(part.get("type")) for part in message.content if isinstance(part, dict)}
        if other := sorted(kinds - _READ):
            raise ValueError(f"rag-service reads text alone, and a message holds {', '.join(other)}; leave that out")
    return str(message.text)


_READ = {"text", "text-plain", "tool_call", "tool_use", "reasoning"}
"""Calls of tools are read from the message's `tool_calls`; reasoning is left out."""


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["args"], ensure_ascii=False)}
    return {"id": call["id"], "type": "function", "function": function}


def _message(message: BaseMessage) -> dict[str, Any]:
    text = text_of(message)
    match message:
        case HumanMessage():
            said: dict[str, Any] = {"role": "user", "content": text}
        case AIMessage():
            said = {"role": "assistant", "content": text}
            if message.tool_calls:
                said["tool_calls"] = [_call(call) for call in message.tool_calls]
        case SystemMessage():
            said = {"role": "system", "content": text}
        case ToolMessage():
            said = {"role": "tool", "content": text, "tool_call_id": message.tool_call_id}
        case ChatMessage():
            said = {"role": message.role, "content": text}
        case _:
            raise ValueError(f"rag-service takes system, human, AI and tool messages, not {type(message).__name__}")
    if message.name:
        said["name"] = message.name
    return said
