"""OpenAI-compatible endpoints for text: /v1/chat/completions and /v1/completions."""

from __future__ import annotations

import time
import uuid
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from rag_service.answering.pipeline import Pipeline
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import Responses, error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.api.sse import HEADERS
from rag_service.openai import replies as openai_replies
from rag_service.openai import request as openai_request
from rag_service.openai.answers import ChatForm, CompletionForm, Form
from rag_service.openai.schemas import ChatRequest, CompletionRequest, OpenAIErrorOut
from rag_service.prompting.conversation import Conversation
from rag_service.replying import attended
from rag_service.replying.model_names import collection_of

responses = error_responses(401, 403, 503, model=OpenAIErrorOut)
streaming: Responses = {
    200: {"content": {"text/event-stream": {}}, "description": "The response, or with `stream` its chunks"},
    **error_responses(400, 404, 413, 415, 429, 502, 507, model=OpenAIErrorOut),
}
router = APIRouter(prefix="/v1", tags=["openai"], responses=responses, route_class=JsonRoute, dependencies=[READER])


@router.post("/chat/completions", response_model=dict[str, Any], responses=streaming)
async def chat(body: ChatRequest, pipeline: PipelineDep, request: Request) -> dict[str, Any] | Response:
    """A chat completion as OpenAI's API gives it.

    The model `rag:<collection>` looks for passages for the last user message and cites them: `citations` and
    `passages` on the message (of a stream, on the last delta), and `annotations` of type `url_citation`. No session is
    kept: the client sends its history every time. A client that goes away cancels its
    answers.
    """
    collection = await anyio.to_thread.run_sync(collection_of, body.model, pipeline)
    openai_request.check_engine(body, pipeline.admission.engine(collection))
    conversations = await anyio.to_thread.run_sync(openai_request.chat, body, collection, pipeline.tokens.call_form)
    form = _form(ChatForm, body, pipeline, request, collection, body.logprobs)
    return await _reply(pipeline, conversations, form, body, request)


@router.post("/completions", response_model=dict[str, Any], responses=streaming)
async def complete(body: CompletionRequest, pipeline: PipelineDep, request: Request) -> dict[str, Any] | Response:
    """A completion as OpenAI's API gives it: the model continues the prompt as it stands, without a chat template.

    The model `rag:<collection>` answers the prompt as a question instead.
    """
    collection = await anyio.to_thread.run_sync(collection_of, body.model, pipeline)
    conversations = await anyio.to_thread.run_sync(
        openai_request.completion, body, collection, pipeline.tokens.vocab_size
    )
    form = _form(CompletionForm, body, pipeline, request, collection, body.logprobs is not None)
    return await _reply(pipeline, conversations, form, body, request)


async def _reply(
    pipeline: Pipeline,
    conversations: list[Conversation],
    form: Form,
    body: ChatRequest | CompletionRequest,
    request: Request,
) -> dict[str, Any] | Response:
    ids = await attended.ask(pipeline, conversations)
    if not body.stream:
        reply = await openai_replies.whole(pipeline, ids, form, body.n, lambda: attended.gone(request))
        return Response(status_code=204) if reply is None else reply  # nobody reads it
    chunks = openai_replies.stream(pipeline, ids, form, body.n, body.stream_options.include_usage)
    return StreamingResponse(chunks, media_type="text/event-stream", headers=HEADERS)


def _form(
    form: type[Form],
    body: ChatRequest | CompletionRequest,
    pipeline: Pipeline,
    request: Request,
    collection: str | None,
    measured: bool,
) -> Form:
    return form(
        request_id=uuid.uuid4().hex,
        model=body.model,
        created=int(time.time()),
        base_url=str(request.base_url),
        collection=collection,
        measured=measured,
        tokens=pipeline.tokens,
        **_calls(body, pipeline),
    )


def _calls(body: ChatRequest | CompletionRequest, pipeline: Pipeline) -> dict[str, Any]:
    """How the form reads calls of tools."""
    if not isinstance(body, ChatRequest) or not body.offered:
        return {}
    if body.forced:
        return {"forced": pipeline.tokens.call_form, "named": body.named is not None}
    return {"most_calls": None if body.parallel_tool_calls else 1}
