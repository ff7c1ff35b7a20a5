"""Runs one conversation over HTTP and measures it turn by turn. Knows the client; knows no benchmark and no stack."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any

from rag_service.bench.conversations import Conversation
from rag_service.bench.outcomes import Turn
from rag_service.client import RagClient
from rag_service.client.errors import NotFound
from rag_service.client.events import Done, Event, Token
from rag_service.contract.answer import Answer

SEED = 1


def measure(
    client: RagClient,
    conversation: Conversation,
    *,
    speculation: str,
    max_tokens: int,
    collection: str | None = None,
    top_k: int | None = None,
    prompt_ids: Callable[[str, int], list[int]] = lambda session_id, tokens: [],
) -> list[Turn]:
    """Run a conversation in a session of its own, which is erased at the end.

    Args:
        speculation: `off`, `auto` or a drafter's name.
        collection: for conversations with retrieval.
        prompt_ids: reads the first tokens of a session: (session, number of tokens).

    Raises:
        RagError: the service rejects or fails.
    """
    turns: list[Turn] = []
    session_id, answer_id = "", ""
    options: dict[str, Any] = {
        "max_tokens": conversation.max_tokens or max_tokens,
        "seed": SEED,
        "speculation": speculation,
    }
    query = {**options, "retrieval": {"mode": "none"}}
    if conversation.retrieval and collection is not None:
        query |= {"collection": collection, "retrieval": {"top_k": top_k} if top_k else {}}
    try:
        for message in conversation.messages:
            started = time.perf_counter()
            if message.edit:
                events = client.stream_edit(answer_id, message.text, **options)
            else:
                events = client.stream(message.text, **query)
            first_token_at, streamed = _follow(events)
            answer_id, session_id = streamed.answer_id, streamed.session_id
            query["session_id"] = session_id
            ended = time.perf_counter()
            answer = client.answer(answer_id, token_ids=True)
            ids = prompt_ids(session_id, _count(answer, "prompt_tokens"))
            turns.append(_turn(answer, 1e3 * ((first_token_at or ended) - started), 1e3 * (ended - started), ids))
    finally:
        if session_id:
            with contextlib.suppress(NotFound):
                client.erase_session(session_id)
    return turns


def _follow(events: Generator[Event]) -> tuple[float | None, Answer]:
    """(time of the first text, the answer)."""
    first_token_at = None
    for event in events:
        if isinstance(event, Token) and first_token_at is None:
            first_token_at = time.perf_counter()
        if isinstance(event, Done):
            return first_token_at, event.answer
    raise RuntimeError("The stream ended without its last event.")


def _turn(answer: Answer, seen_first_ms: float, seen_ms: float, prompt_ids: list[int]) -> Turn:
    assert answer.speculation is not None
    assert answer.timings is not None
    speculation, times = answer.speculation, answer.timings
    details: Any = (answer.usage or {}).get("prompt_tokens_details") or {}
    return Turn(
        text=answer.answer or "",
        ids=answer.token_ids or [],
        citations=[citation.model_dump() for citation in answer.citations or ()],
        passages=[passage.chunk_id for passage in answer.passages],
        finish_reason=str(answer.finish_reason),
        prompt_tokens=_count(answer, "prompt_tokens"),
        cached_tokens=int(details.get("cached_tokens", 0)),
        steps=speculation["steps"],
        drafted=speculation["drafted"],
        accepted=speculation["accepted"],
        first_token_ms=round(times["first_token"], 3),
        job_ms=round(times["total"] - times["queued"], 3),
        seen_first_ms=round(seen_first_ms, 3),
        seen_ms=round(seen_ms, 3),
        rewrite_ms=times.get("rewrite"),
        prompt_ids=prompt_ids,
    )


def _count(answer: Answer, name: str) -> int:
    value = (answer.usage or {})[name]
    assert isinstance(value, int)
    return value
