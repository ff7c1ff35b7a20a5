"""Names of models that answer, as clients of other services' APIs send them: the served model, and collections."""

from __future__ import annotations

from rag_service.answering.pipeline import Pipeline
from rag_service.answering.served_model import served_name, served_names
from rag_service.contract.collections import joined, split
from rag_service.errors import NotFound
from rag_service.settings import Settings
from retriever import InvalidName, UnknownCollection

DEFAULT = "default"
PREFIX = "rag:"
"""Before the name of a collection that grounds the answer."""


def collection_of(model: str, pipeline: Pipeline) -> str | None:
    """The collection that grounds a model's answers; None for the model itself.

    Raises:
        NotFound: there is no such model.
    """
    if model.startswith(PREFIX):
        try:
            names = str(joined(model.removeprefix(PREFIX)))
            for name in split(names):
                pipeline.library.collection(name)
        except (UnknownCollection, InvalidName, ValueError) as error:
            close = error.similar if isinstance(error, UnknownCollection) else None
            raise _unknown(model, pipeline.settings, close) from None
        return names
    if model != DEFAULT and model not in served_names(pipeline.settings):
        raise _unknown(model, pipeline.settings)
    return None


def _unknown(model: str, settings: Settings, close: str | None = None) -> NotFound:
    suggestion = f" (did you mean {PREFIX + close!r}?)" if close else ""
    return NotFound(
        f"There is no model {model[:80]!r}{suggestion}: use {served_name(settings)!r}, or rag:<collection> with one of "
        "your collections; GET /v1/models lists them.",
        "model_not_found",
        param="model",
    )
