"""From conversations to OpenAI's responses: ask the pipeline, wait or stream.

Nobody can come back to a stream of OpenAI's, so a client that goes away cancels its answers. Knows the pipeline and the
wire format; what a response looks like is the form's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio

from rag_service.answering.pipeline import Pipeline
from rag_service.api.openai_errors import error_document
from rag_service.api.problems import as_problem
from rag_service.api.sse import HEARTBEAT
from rag_service.contract.answer import Answer
from rag_service.errors import Unavailable
from rag_service.openai.answers import Form, Piece, failed, usage
from rag_service.openai.forced_calls import CallReader
from rag_service.openai.logprobs import Measured, MeasuredRun
from rag_service.openai.tools import Withheld
from rag_service.prompting.conversation import Conversation
from workers.broker.messages import AnswerEvent, DoneEvent, ErrorEvent, RestartEvent, TokenEvent

DONE = "data: [DONE]\n\n"


async def ask(pipeline: Pipeline, conversations: Sequence[Conversation]) -> list[str]:
    """Enqueue every choice; where one is rejected, none is answered. Returns their ids. Raises Problem."""
    ids: list[str] = []
    try:
        for conversation in conversations:
            ids.append(await pipeline.answer(conversation))
    except BaseException:
        await _cancel(pipeline, ids)
        raise
    return ids


async def whole(
    pipeline: Pipeline, ids: Sequence[str], form: Form, n: int, gone: Callable[[], Awaitable[None]]
) -> dict[str, Any] | None:
    """Wait for all choices; None where the client went away, which cancels them. Raises Problem where one fails.

    Args:
        gone: returns once the client is gone.
    """
    answers = await _finished(pipeline, ids, gone)
    if answers is None:
        return None
    for answer in answers:
        if answer.answer is None:
            raise failed(answer)
    runs = [await _measured(pipeline, answer) if form.measured else [] for answer in answers]
    choices = [form.choice(index, answer, run) for index, (answer, run) in enumerate(zip(answers, runs, strict=True))]
    return form.response(choices, usage(answers, n))


async def _finished(pipeline: Pipeline, ids: Sequence[str], gone: Callable[[], Awaitable[None]]) -> list[Answer] | None:
    answering = asyncio.gather(*map(pipeline.answers.finished, ids))
    leaving = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return list(answering.result())
        await _cancel(pipeline, ids)
        return None
    except asyncio.CancelledError:
        await _cancel(pipeline, ids)
        raise
    finally:
        answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)


async def stream(pipeline: Pipeline, ids: Sequence[str], form: Form, n: int, include_usage: bool) -> AsyncIterator[str]:
    """The chunks of all choices as they come, as text of server-sent events."""
    ended: dict[int, Answer] = {}
    runs = [MeasuredRun(form.tokens) for _ in ids]
    readers = [form.reader(answer_id) for answer_id in ids]
    try:
        for opening in map(form.opening, range(len(ids))):
            if opening is not None:
                yield _data(form.chunk(opening), include_usage)
        async for index, event in _merged(pipeline, ids):
            if event is None:
                yield HEARTBEAT
            elif isinstance(event, RestartEvent):
                raise Unavailable(
                    "The answer started again after a part of it was streamed, and a stream cannot take text back. "
                    "Ask again, or without `stream`.",
                    "answer_restarted",
                    retry_after=1,
                )
            elif isinstance(event, TokenEvent):
                run = runs[index].push(event.ids, event.logprobs, event.text) if form.measured else []
                for piece in _pieces(readers[index], event.text) or ([""] if run else []):
                    yield _data(form.chunk(form.piece(index, piece, run)), include_usage)
                    run = []
            elif isinstance(event, DoneEvent | ErrorEvent):
                ended[index] = answer = await pipeline.answers.result(ids[index])
                if answer.answer is None:
                    raise failed(answer)
                reader = readers[index]
                if isinstance(reader, Withheld) and (rest := reader.rest(form.split(answer)[0].answer)):
                    yield _data(form.chunk(form.piece(index, rest, ())), include_usage)
                yield _data(form.chunk(form.ending(index, answer)), include_usage)
        if include_usage:
            yield _data(form.chunk(usage=usage([ended[index] for index in range(len(ids))], n)), True)
        yield DONE
    except Exception as error:
        yield f"data: {json.dumps(error_document(as_problem(error)), ensure_ascii=False)}\n\n"
    finally:
        await _cancel(pipeline, [answer_id for index, answer_id in enumerate(ids) if index not in ended])


def _pieces(reader: CallReader | Withheld | None, text: str) -> Sequence[Piece]:
    """What a text adds to what is shown."""
    read = text if reader is None else reader.push(text)
    return [piece for piece in ([read] if isinstance(read, str) else read) if piece]


async def _merged(pipeline: Pipeline, ids: Sequence[str]) -> AsyncIterator[tuple[int, AnswerEvent | None]]:
    """Events of several answers as they come; None after silence. Raises what following one of them raises."""
    arrived: asyncio.Queue[tuple[int, AnswerEvent | None] | Exception] = asyncio.Queue()

    async def follow(index: int, answer_id: str) -> None:
        try:
            async for item in pipeline.answers.events(answer_id):
                await arrived.put((index, None if item is None else item[1]))
        except Exception as error:
            await arrived.put(error)

    following = [asyncio.create_task(follow(index, answer_id)) for index, answer_id in enumerate(ids)]
    left = len(ids)
    try:
        while left:
            item = await arrived.get()
            if isinstance(item, Exception):
                raise item
            left -= isinstance(item[1], DoneEvent | ErrorEvent)
            yield item
    finally:
        for task in following:
            task.cancel()


async def _measured(pipeline: Pipeline, answer: Answer) -> list[Measured]:
    run = MeasuredRun(pipeline.tokens)
    logprobs: list[Measured] = []
    async for item in pipeline.answers.events(answer.answer_id):
        if item is not None and isinstance(item[1], TokenEvent):
            logprobs += run.push(item[1].ids, item[1].logprobs, item[1].text)
    return logprobs


async def _cancel(pipeline: Pipeline, ids: Sequence[str]) -> None:
    with anyio.CancelScope(shield=True):
        for answer_id in ids:
            try:
                await pipeline.answers.cancel(answer_id)
            except Exception as error:  # it ended by itself, or Redis is away: then it runs on unread
                as_problem(error)


def _data(chunk: dict[str, Any], with_usage: bool) -> str:
    if not with_usage:
        del chunk["usage"]
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
