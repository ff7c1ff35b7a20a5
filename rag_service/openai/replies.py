"""Answers as OpenAI's responses: wait for them, or stream them as they come.

Knows the wire format; what a response looks like is the form's, and `attended` follows the answers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from rag_service.answering.pipeline import Pipeline
from rag_service.api.openai_errors import error_document
from rag_service.api.problems import as_problem
from rag_service.api.sse import HEARTBEAT
from rag_service.contract.answer import Answer
from rag_service.openai.answers import Form, Piece, usage
from rag_service.openai.logprobs import Measured, MeasuredRun
from rag_service.replying import attended
from rag_service.replying.forced_calls import CallReader
from rag_service.replying.written_calls import Withheld
from workers.broker.messages import TokenEvent

DONE = "data: [DONE]\n\n"


async def whole(
    pipeline: Pipeline, ids: Sequence[str], form: Form, n: int, gone: Callable[[], Awaitable[None]]
) -> dict[str, Any] | None:
    """Wait for all choices; None where the client went away, which cancels them. Raises Problem where one fails.

    Args:
        gone: returns once the client is gone.
    """
    answers = await attended.finished(pipeline, ids, gone)
    if answers is None:
        return None
    runs = [await _measured(pipeline, answer) if form.measured else [] for answer in answers]
    choices = [form.choice(index, answer, run) for index, (answer, run) in enumerate(zip(answers, runs, strict=True))]
    return form.response(choices, usage(answers, n))


async def stream(pipeline: Pipeline, ids: Sequence[str], form: Form, n: int, include_usage: bool) -> AsyncIterator[str]:
    """The chunks of all choices as they come, as text of server-sent events."""
    ended: dict[int, Answer] = {}
    runs = [MeasuredRun(form.tokens) for _ in ids]
    readers = [form.reader(answer_id) for answer_id in ids]
    try:
        async with attended.following(pipeline, ids) as items:
            for opening in map(form.opening, range(len(ids))):
                if opening is not None:
                    yield _data(form.chunk(opening), include_usage)
            async for index, item in items:
                if item is None:
                    yield HEARTBEAT
                elif isinstance(item, TokenEvent):
                    run = runs[index].push(item.ids, item.logprobs, item.text) if form.measured else []
                    for piece in _pieces(readers[index], item.text) or ([""] if run else []):
                        yield _data(form.chunk(form.piece(index, piece, run)), include_usage)
                        run = []
                else:
                    ended[index] = item
                    reader = readers[index]
                    if isinstance(reader, Withheld) and (rest := reader.rest(form.split(item)[0].answer)):
                        yield _data(form.chunk(form.piece(index, rest, ())), include_usage)
                    yield _data(form.chunk(form.ending(index, item)), include_usage)
        if include_usage:
            yield _data(form.chunk(usage=usage([ended[index] for index in range(len(ids))], n)), True)
        yield DONE
    except Exception as error:
        yield f"data: {json.dumps(error_document(as_problem(error)), ensure_ascii=False)}\n\n"


def _pieces(reader: CallReader | Withheld | None, text: str) -> Sequence[Piece]:
    """What a text adds to what is shown."""
    read = text if reader is None else reader.push(text)
    return [piece for piece in ([read] if isinstance(read, str) else read) if piece]


async def _measured(pipeline: Pipeline, answer: Answer) -> list[Measured]:
    run = MeasuredRun(pipeline.tokens)
    logprobs: list[Measured] = []
    async for item in pipeline.answers.events(answer.answer_id):
        if item is not None and isinstance(item[1], TokenEvent):
            logprobs += run.push(item[1].ids, item[1].logprobs, item[1].text)
    return logprobs


def _data(chunk: dict[str, Any], with_usage: bool) -> str:
    if not with_usage:
        del chunk["usage"]
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
