"""/v1/answers: read an answer, resume its events, cancel it, edit it, list its versions and rate it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from rag_service.api import sse
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.contract.answer import Answer, VersionList
from rag_service.contract.feedback import FeedbackOut, FeedbackRequest
from rag_service.contract.ids import AnswerPath
from rag_service.contract.responses import Cancelled
from rag_service.contract.schemas import EditRequest
from rag_service.errors import InvalidRequest

router = APIRouter(prefix="/v1/answers", tags=["answers"], route_class=JsonRoute, dependencies=[READER])


@router.get("/{answer_id}", responses=error_responses(400, 404, 422))
async def read(answer_id: AnswerPath, pipeline: PipelineDep, token_ids: bool = False, prompt: bool = False) -> Answer:
    """Read an answer in its present state. While it runs, `answer` and `citations` are null.

    `?token_ids=true` adds the ids of the answer's tokens, `?prompt=true` the whole prompt.
    """
    if token_ids:
        pipeline.admission.check_token_ids((await pipeline.answers.record(answer_id))["job"])
    return await pipeline.answers.result(answer_id, token_ids, prompt)


@router.get(
    "/{answer_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "The events"},
        204: {"description": "There are no more events"},
        **error_responses(404, 422),
    },
)
async def events(
    answer_id: AnswerPath, pipeline: PipelineDep, last_event_id: Annotated[str | None, Header()] = None
) -> Response:
    """The answer's server-sent events, from the start or after `Last-Event-ID`.

    204 after the last event, so that a browser's EventSource stops.
    """
    record = await pipeline.answers.record(answer_id)
    after = last_event_id or "0-0"
    try:
        has_events = await pipeline.answers.waiting_events(answer_id, after)
    except ValueError as error:
        raise InvalidRequest(f"Last-Event-ID: {error}.") from None
    if not has_events and (record["result"] or record["error"]):
        return Response(status_code=204)
    return sse.streaming(pipeline, record["job"], after)


@router.delete("/{answer_id}", responses=error_responses(404))
async def cancel(answer_id: AnswerPath, pipeline: PipelineDep) -> Cancelled:
    """Cancel an answer. It ends as `cancelled` with its text so far; an answer that has ended does not change."""
    return Cancelled(cancelled=await pipeline.answers.cancel(answer_id))


@router.post(
    "/{answer_id}/edits",
    response_model=Answer,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "The new version, or its events"},
        **error_responses(400, 404, 409, 413, 415, 422, 429, 507),
    },
)
async def edit(answer_id: AnswerPath, body: EditRequest, pipeline: PipelineDep) -> Answer | Response:
    """Edit an answer. The result is the whole changed answer, a new version with its own id.

    The edit is the next turn of the answer's session. Drafts copy from the answer under edit first, so a small change
    costs few passes. Any version can be edited again. Unchanged spans keep their citations. The default of `max_tokens`
    is the length of the answer plus half the usual limit.

    409 `answer_running` while the answer is not finished; 409 `not_editable` if it failed, was cancelled or is empty.
    With `stream: true`, the events are those of a query.
    """
    new_id = await pipeline.edit(answer_id, body)
    if body.stream:
        return sse.streaming(pipeline, (await pipeline.answers.record(new_id))["job"])
    return await pipeline.answers.finished(new_id)


@router.get("/{answer_id}/versions", responses=error_responses(404))
async def versions(answer_id: AnswerPath, pipeline: PipelineDep) -> VersionList:
    """List an answer and its edits, oldest first. The id of any version gives the same list."""
    return VersionList(versions=await pipeline.answers.versions(answer_id))


@router.post("/{answer_id}/feedback", responses=error_responses(400, 404, 409, 413, 415, 422, 507))
async def give_feedback(answer_id: AnswerPath, body: FeedbackRequest, pipeline: PipelineDep) -> FeedbackOut:
    """Rate a finished answer, with a comment if wanted. It replaces earlier feedback on the same answer.

    The question, the answer and its passages are kept beside it for the operator, who reads it all with `rag feedback`,
    for `RAG_ANSWERS__SESSION_TTL` seconds. Erasing the session erases it. 409 `answer_running` while the answer is not
    finished.
    """
    return await pipeline.answers.rate(answer_id, body)


@router.get("/{answer_id}/feedback", responses=error_responses(404))
async def read_feedback(answer_id: AnswerPath, pipeline: PipelineDep) -> FeedbackOut:
    """Read the feedback on an answer."""
    return await pipeline.answers.feedback(answer_id)


@router.delete("/{answer_id}/feedback", status_code=204, responses=error_responses(404))
async def withdraw_feedback(answer_id: AnswerPath, pipeline: PipelineDep) -> None:
    """Withdraw the feedback on an answer."""
    await pipeline.answers.withdraw_feedback(answer_id)
