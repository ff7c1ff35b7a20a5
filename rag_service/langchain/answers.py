"""Answers of /v1/query for LangChain: pieces of text, then the metadata. Cancels an answer that is read no further."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any

import anyio
from langchain_core.messages.ai import UsageMetadata

from rag_service.client import AsyncRagClient, Done, Passages, RagClient, RagError, Restart, Token
from rag_service.contract.answer import Answer
from rag_service.langchain.metadata import response_metadata, usage_metadata

CANCEL_S = 5.0
"""Longest wait for the request that cancels an answer."""


STARTED_AGAIN = (
    "The answer started again after a part of it was streamed, and a stream cannot take text back. Ask again, or "
    "invoke without streaming."
)


@dataclass(frozen=True)
class Ending:
    """The metadata of a finished answer."""

    metadata: dict[str, Any]
    usage: UsageMetadata | None


def stream_answer(rag: RagClient, body: dict[str, Any], model: str) -> Generator[str | Ending]:
    """The text in pieces, then the `Ending`. An answer is cancelled if its stream is closed before the end."""
    running: str | None = None
    try:
        with contextlib.closing(rag.stream(**body)) as events:
            for event in events:
                match event:
                    case Passages():
                        running = event.answer_id
                    case Token():
                        yield event.text
                    case Restart():
                        raise RagError(STARTED_AGAIN)
                    case Done():
                        running = None
                        yield ending(event.answer, model)
    except RagError:
        running = None  # the answer ended, or the service cannot be reached
        raise
    finally:
        if running is not None:
            with contextlib.suppress(RagError):
                rag.cancel(running)


async def astream_answer(rag: AsyncRagClient, body: dict[str, Any], model: str) -> AsyncGenerator[str | Ending]:
    """As `stream_answer`."""
    running: str | None = None
    try:
        async with contextlib.aclosing(rag.stream(**body)) as events:
            async for event in events:
                match event:
                    case Passages():
                        running = event.answer_id
                    case Token():
                        yield event.text
                    case Restart():
                        raise RagError(STARTED_AGAIN)
                    case Done():
                        running = None
                        yield ending(event.answer, model)
    except RagError:
        running = None
        raise
    finally:
        if running is not None:
            with anyio.move_on_after(CANCEL_S, shield=True), contextlib.suppress(RagError):
                await rag.cancel(running)


def ending(answer: Answer, model: str) -> Ending:
    return Ending(response_metadata(answer, model), usage_metadata(answer.usage))
