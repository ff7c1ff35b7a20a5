"""OpenAI-compatible endpoints for models and embeddings: /v1/models and /v1/embeddings."""

from __future__ import annotations

import base64
from typing import Any

import anyio.to_thread
from fastapi import APIRouter

from rag_service.answering.pipeline import Pipeline
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.contract.ids import ModelPath
from rag_service.errors import BadRequest
from rag_service.openai import models as openai_models
from rag_service.openai.routes import responses
from rag_service.openai.schemas import EmbeddingRequest, OpenAIErrorOut

router = APIRouter(prefix="/v1", tags=["openai"], responses=responses, route_class=JsonRoute, dependencies=[READER])


@router.get("/models")
def list_models(pipeline: PipelineDep) -> dict[str, Any]:
    """The served model, every collection as `rag:<collection>`, and the embedding model."""
    return {"object": "list", "data": openai_models.every(pipeline)}


@router.get("/models/{model:path}", responses=error_responses(404, model=OpenAIErrorOut))
def model(model: ModelPath, pipeline: PipelineDep) -> dict[str, Any]:
    """One of them; `default` is the served model."""
    return openai_models.one(model, pipeline)


@router.post("/embeddings", responses=error_responses(400, 404, 413, 415, 429, model=OpenAIErrorOut))
async def embeddings(body: EmbeddingRequest, pipeline: PipelineDep) -> dict[str, Any]:
    """Vectors of length 1 from the embedding model, as passages are embedded.

    `usage` counts the target model's tokens: the embedding model's own are not known here.
    """
    # A few at a time, in threads of their own: they keep the processor busy, and other requests must not wait for them.
    return await anyio.to_thread.run_sync(_embedded, body, pipeline, limiter=pipeline.embedding_threads)


def _embedded(body: EmbeddingRequest, pipeline: Pipeline) -> dict[str, Any]:
    settings = pipeline.settings
    openai_models.check_embedding(body.model, settings)
    embedder = pipeline.embedder
    if body.dimensions not in (None, embedder.dimension):
        raise BadRequest(
            f"This model's embeddings have {embedder.dimension} dimensions; leave `dimensions` out.",
            "unsupported_dimensions",
            param="dimensions",
        )
    if not all(text.strip() for text in body.texts):
        raise BadRequest("One of the texts is empty; send texts with something in them.", "empty_input", param="input")
    vectors = embedder.embed_documents(body.texts)
    tokens = sum(len(pipeline.tokens.encode_content(text).ids) for text in body.texts)
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": vector.tolist()
            if body.encoding_format == "float"
            else base64.b64encode(vector.astype("<f4").tobytes()).decode(),
        }
        for index, vector in enumerate(vectors)
    ]
    return {
        "object": "list",
        "data": data,
        "model": body.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
