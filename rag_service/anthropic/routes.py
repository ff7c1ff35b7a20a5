"""Anthropic's endpoints: /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import APIKeyHeader

from rag_service.answering.pipeline import Pipeline
from rag_service.anthropic import replies as anthropic_replies
from rag_service.anthropic import request as anthropic_request
from rag_service.anthropic.message import MessageForm
from rag_service.anthropic.schemas import AnthropicErrorOut, CountRequest, MessagesRequest, TokenCount
from rag_service.api.anthropic_errors import REQUEST_ID, new_request_id
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import Responses, error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.api.sse import HEADERS
from rag_service.replying import attended
from rag_service.replying.model_names import collection_of

responses = error_responses(401, 403, 503, model=AnthropicErrorOut)
refusals = error_responses(400, 404, 413, 415, model=AnthropicErrorOut)
streaming: Responses = {
    200: {"content": {"text/event-stream": {}}, "description": "The message, or with `stream` its events"},
    **refusals,
    **error_responses(429, 502, 507, model=AnthropicErrorOut),
}
api_key = Depends(APIKeyHeader(name="x-api-key", auto_error=False, description="The same key, as Anthropic sends it."))
router = APIRouter(
    prefix="/v1", tags=["anthropic"], responses=responses, route_class=JsonRoute, dependencies=[READER, api_key]
)


@router.post("/messages", response_model=dict[str, Any], responses=streaming)
async def messages(body: MessagesRequest, pipeline: PipelineDep, request: Request) -> Response:
    """A message as Anthropic's API gives it.

    The model `rag:<collection>` looks for passages for the last user message and cites them: each sentence is a text
    block, with its `citations` of the type `char_location`. `document_index` counts the message's `documents`, and the
    offsets are characters of the document's text. No session is kept: the client sends its history every time. A
    client that goes away cancels its answer.
    """
    collection = await anyio.to_thread.run_sync(collection_of, body.model, pipeline)
    anthropic_request.check_engine(body, pipeline.admission.engine(collection))
    conversation = await anyio.to_thread.run_sync(
        anthropic_request.conversation, body, collection, pipeline.tokens.call_form
    )
    form = MessageForm(body.model, str(request.base_url), collection, **_calls(body, pipeline))
    request_id = new_request_id()
    headers = {REQUEST_ID: request_id}
    (answer_id,) = await attended.ask(pipeline, [conversation])
    stops = body.stop_sequences
    if body.stream:
        events = anthropic_replies.stream(pipeline, answer_id, form, stops, request_id)
        return StreamingResponse(events, media_type="text/event-stream", headers={**HEADERS, **headers})
    reply = await anthropic_replies.whole(pipeline, answer_id, form, stops, lambda: attended.gone(request))
    return Response(status_code=204) if reply is None else JSONResponse(reply, headers=headers)  # 204: nobody reads it


@router.post("/messages/count_tokens", responses=refusals)
async def count_tokens(body: CountRequest, pipeline: PipelineDep, response: Response) -> TokenCount:
    """The tokens of a message's prompt, without answering it.

    With the model `rag:<collection>`, the passages that would be found now count too. A follow-up is not rewritten for
    it, as it would be before it is answered.
    """
    collection = await anyio.to_thread.run_sync(collection_of, body.model, pipeline)
    conversation = await anyio.to_thread.run_sync(
        anthropic_request.counted, body, collection, pipeline.tokens.call_form
    )
    response.headers[REQUEST_ID] = new_request_id()
    return TokenCount(input_tokens=await pipeline.count(conversation))


def _calls(body: MessagesRequest, pipeline: Pipeline) -> dict[str, Any]:
    """How the form reads calls of tools."""
    if not body.offered:
        return {}
    return {"forced": pipeline.tokens.call_form} if body.forces else {"most_calls": None if body.many else 1}
