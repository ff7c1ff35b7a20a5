"""POST /v1/query: a question in, an answer or its events out."""

from __future__ import annotations

from fastapi import APIRouter, Response

from rag_service import sse
from rag_service.deps import PipelineDep
from rag_service.refusals import refusals
from rag_service.schemas import Answer, QueryRequest

router = APIRouter(prefix="/v1", tags=["query"])


@router.post(
    "/query",
    response_model=Answer,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "The answer, or with `stream` its events"},
        **refusals(400, 404, 409, 413, 422, 429),
    },
)
async def query(body: QueryRequest, pipeline: PipelineDep) -> Answer | Response:
    """Answer a question over a collection, with citations.

    With `stream: true`: server-sent events `passages`, `token` `{text, source?}`, `done` (the whole answer) and
    `error`. Their ids resume at `GET /v1/answers/{id}/events` with `Last-Event-ID`. A client that goes away does not
    stop the answer; `DELETE /v1/answers/{id}` does.

    A session's turns come one after the other: while its last answer is not finished, a request waits for it
    (`on_conflict: wait`), or gets 409 `session_busy` at once (`reject`).
    """
    answer_id = await pipeline.answer(body)
    if body.stream:
        return sse.streaming(pipeline, (await pipeline.record(answer_id))["job"])
    return await pipeline.finished(answer_id)
