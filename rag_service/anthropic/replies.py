"""Answers as Anthropic's messages: wait for them, or stream them as they come.

Knows the pipeline and records of answers; what a message looks like is the form's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio.to_thread

from rag_service.answering.pipeline import Pipeline
from rag_service.anthropic.message import MessageForm
from rag_service.anthropic.streamed import PING, StreamedMessage, event_text
from rag_service.api.anthropic_errors import error_document
from rag_service.api.problems import as_problem
from rag_service.prompting.prompt import length
from rag_service.replying import attended
from workers.broker.messages import TokenEvent


async def whole(
    pipeline: Pipeline,
    answer_id: str,
    form: MessageForm,
    stops: Sequence[str],
    gone: Callable[[], Awaitable[None]],
) -> dict[str, Any] | None:
    """Wait for the answer; None where the client went away, which cancels it. Raises Problem where it fails.

    Args:
        stops: the request's strings that end the answer.
        gone: returns once the client is gone.
    """
    answers = await attended.finished(pipeline, [answer_id], gone)
    return None if answers is None else form.message(answers[0], await _stopped_at(pipeline, answer_id, stops))


async def stream(
    pipeline: Pipeline, answer_id: str, form: MessageForm, stops: Sequence[str], request_id: str
) -> AsyncIterator[str]:
    """The message's events as they come, as text of server-sent events. Arguments as `whole`."""
    message = StreamedMessage(form, answer_id)
    try:
        async with attended.following(pipeline, [answer_id]) as items:
            yield event_text(message.start(await _prompt_tokens(pipeline, answer_id)))
            async for _, item in items:
                if item is None:
                    yield event_text(PING)
                    continue
                if isinstance(item, TokenEvent):
                    events = message.push(item.text)
                else:
                    events = message.end(item, await _stopped_at(pipeline, answer_id, stops))
                for event in events:
                    yield event_text(event)
    except Exception as error:
        yield event_text(error_document(as_problem(error), request_id=request_id))


async def _prompt_tokens(pipeline: Pipeline, answer_id: str) -> int:
    segments = (await pipeline.answers.record(answer_id))["job"].segments
    return await anyio.to_thread.run_sync(lambda: sum(length(segment, pipeline.tokens) for segment in segments))


async def _stopped_at(pipeline: Pipeline, answer_id: str, stops: Sequence[str]) -> str | None:
    """Which of these strings ended an answer: its tokens go on with it after its text. None where none is known.

    A model server that stops at a string does not send it.
    """
    done = (await pipeline.answers.record(answer_id))["result"] if stops else None
    if done is None or done.finish_reason != "stop":
        return None
    written = pipeline.tokens.decode(done.ids)
    if pipeline.tokens.strips_space:
        written = written.removeprefix(" ")
    if not written.startswith(done.text):
        return None
    return next((stop for stop in stops if written.startswith(stop, len(done.text))), None)
