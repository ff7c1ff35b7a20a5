"""Names of models as OpenAI's clients know them: the served model, collections, and the embedding model."""

from __future__ import annotations

from typing import Any

from rag_service.answering.pipeline import Pipeline
from rag_service.answering.served_model import served_name, short_name
from rag_service.contract.collections import split
from rag_service.errors import NotFound
from rag_service.replying.model_names import PREFIX, collection_of
from rag_service.settings import Settings


def embedding_name(settings: Settings) -> str:
    return short_name(settings.embedding_model)


def check_embedding(model: str, settings: Settings) -> None:
    """Raises NotFound unless it is the embedding model's name."""
    if model not in (embedding_name(settings), settings.embedding_model):
        raise NotFound(
            f"The model {model[:80]!r} makes no embeddings here; the embedding model is {embedding_name(settings)!r}.",
            "model_not_found",
            param="model",
        )


def describe(name: str, created: float = 0.0) -> dict[str, Any]:
    """A model as `/v1/models` lists it."""
    return {"id": name, "object": "model", "created": int(created), "owned_by": "rag-service"}


def every(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The model, every collection, and the embedding model."""
    return [
        describe(served_name(pipeline.settings)),
        *(describe(f"{PREFIX}{one.name}", one.created) for one in pipeline.library.stats()),
        describe(embedding_name(pipeline.settings)),
    ]


def one(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """Raises NotFound."""
    settings = pipeline.settings
    if name in (embedding_name(settings), settings.embedding_model):
        return describe(name)
    collections = collection_of(name, pipeline)
    if collections is None:
        return describe(name)
    return describe(name, max(pipeline.library.collection(one).stats().created for one in split(collections)))
