"""Answers that end with their client: asked for, waited for or followed, and cancelled where the client goes away.

Nobody can come back to a reply in the form of another service's API, so nothing may run on unread. Knows the pipeline
and events; knows no wire format.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import anyio
from fastapi import Request

from rag_service.answering.pipeline import Pipeline
from rag_service.api.problems import as_problem
from rag_service.contract.answer import Answer
from rag_service.errors import BadGateway, InvalidRequest, Problem, Unavailable
from rag_service.prompting.conversation import Conversation
from workers.broker.messages import AnswerEvent, DoneEvent, ErrorEvent, RestartEvent, TokenEvent


async def ask(pipeline: Pipeline, conversations: Sequence[Conversation]) -> list[str]:
    """Enqueue every answer; where one is rejected, none is answered. Returns their ids. Raises Problem."""
    ids: list[str] = []
    try:
        for conversation in conversations:
            ids.append(await pipeline.answer(conversation))
    except BaseException:
        await _cancel(pipeline, ids)
        raise
    return ids


async def gone(request: Request) -> None:
    """Wait until the client has closed the connection. The body was read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def finished(pipeline: Pipeline, ids: Sequence[str], gone: Callable[[], Awaitable[None]]) -> list[Answer] | None:
    """Wait for all answers; None where the client went away, which cancels them. Raises Problem where one fails.

    Args:
        gone: returns once the client is gone.
    """
    answering = asyncio.gather(*map(pipeline.answers.finished, ids))
    leaving = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return [_succeeded(answer) for answer in answering.result()]
        await _cancel(pipeline, ids)
        return None
    except asyncio.CancelledError:
        await _cancel(pipeline, ids)
        raise
    finally:
        answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)


Followed = tuple[int, TokenEvent | Answer | None]
"""An answer's index with a text of it, or with the answer itself at its end; None after silence."""


@asynccontextmanager
async def following(pipeline: Pipeline, ids: Sequence[str]) -> AsyncIterator[AsyncGenerator[Followed, None]]:
    """What comes of several answers, as it comes. At the end of the context, what has not ended is cancelled.

    Raises (while it is read):
        Problem: one of them failed, or started again after a part of it was given.
    """
    ended: set[int] = set()
    try:
        async with aclosing(_followed(pipeline, ids, ended)) as items:
            yield items
    finally:
        await _cancel(pipeline, [answer_id for index, answer_id in enumerate(ids) if index not in ended])


async def _followed(pipeline: Pipeline, ids: Sequence[str], ended: set[int]) -> AsyncGenerator[Followed, None]:
    async with aclosing(_merged(pipeline, ids)) as events:
        async for index, event in events:
            if event is None or isinstance(event, TokenEvent):
                yield index, event
            elif isinstance(event, RestartEvent):
                raise Unavailable(
                    "The answer started again after a part of it was streamed, and a stream cannot take text back. "
                    "Ask again, or without `stream`.",
                    "answer_restarted",
                    retry_after=1,
                )
            elif isinstance(event, DoneEvent | ErrorEvent):
                answer = await pipeline.answers.result(ids[index])
                ended.add(index)
                yield index, _succeeded(answer)


def failed(answer: Answer) -> Problem:
    """Why an answer failed, as a refusal of its request."""
    error = answer.error or {}
    kind = {422: InvalidRequest, 502: BadGateway, 503: Unavailable}.get(int(error.get("status", 500)), Problem)
    detail, code = str(error.get("detail", "The answer failed.")), str(error.get("code", "internal_error"))
    return kind(detail, code, retry_after=error.get("retry_after"))


def _succeeded(answer: Answer) -> Answer:
    if answer.answer is None:
        raise failed(answer)
    return answer


async def _merged(pipeline: Pipeline, ids: Sequence[str]) -> AsyncGenerator[tuple[int, AnswerEvent | None], None]:
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


async def _cancel(pipeline: Pipeline, ids: Sequence[str]) -> None:
    with anyio.CancelScope(shield=True):
        for answer_id in ids:
            try:
                await pipeline.answers.cancel(answer_id)
            except Exception as error:  # it ended by itself, or Redis is away: then it runs on unread
                as_problem(error)
