"""POST /v1/query: answers a question, as one response or as events.

Next: `Pipeline.answer` (`answering/pipeline.py`). After it, with `stream`: `streaming` (`api/sse.py`).
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from rag_service.api import sse
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.contract.answer import Answer
from rag_service.contract.schemas import QueryRequest

router = APIRouter(prefix="/v1", tags=["query"], route_class=JsonRoute, dependencies=[READER])


@router.post(
    "/query",
    response_model=Answer,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "The answer, or with `stream` its events"},
        **error_responses(400, 404, 409, 413, 415, 422, 429, 507),
    },
)
async def query(body: QueryRequest, pipeline: PipelineDep) -> Answer | Response:
    """Answer a question over a collection, with citations.

    With `stream: true`, the response is server-sent events: `passages`, `waiting` `{answers}` (behind so many other
    answers; 0: no longer), `parts` `{done, total}` (of a document that is read in parts), `token` `{text, tokens,
    steps?, source?, spans?}`, `support` (of answers from passages), `restart` `{reason}` (of a model server's answer
    that starts again: drop its text so far), `done` (the whole answer) and `error`. To resume, send an event's id as
    `Last-Event-ID` to `GET /v1/answers/{id}/events`. A client that disconnects does not stop the answer; `DELETE
    /v1/answers/{id}` does.

    `tokens` and `steps` count the answer's tokens and target passes so far; with a model server there are no `steps`,
    and `tokens` is an estimate. `spans` lists the drafted parts of the
    event's text with their sources: `{answer_start, answer_end, kind, drafter?, collection?, document_id?, chunk_id?,
    answer_id?, source_start?, source_end?}`. Of a model server's text, nothing is drafted: they are words that go on
    as a passage or an earlier answer does, without `drafter`. Offsets count code points of the answer, and of the
    document or earlier answer. Kinds: `passage`, `answer`, `edited`, `prediction`, `question`, `itself`, `neural`,
    `store`, `system`, `instruction`, `template`, `notes`.

    The turns of a session run one after the other. While its last answer is not finished, a request waits for it
    (`on_conflict: wait`), or gets 409 `session_busy` at once (`reject`).
    """
    answer_id = await pipeline.answer(body)
    if body.stream:
        return sse.streaming(pipeline, (await pipeline.answers.record(answer_id))["job"])
    return await pipeline.answers.finished(answer_id)
