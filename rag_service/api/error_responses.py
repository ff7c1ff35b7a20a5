"""What OpenAPI says of errors: the statuses that each route refuses with, and that they are problem documents.

Knows statuses and media types; knows no endpoint.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from rag_service.api.problems import MEDIA_TYPE
from rag_service.contract.schemas import ProblemOut

Responses = dict[int | str, dict[str, Any]]

_LATER = {"Retry-After": {"description": "Seconds after which to try again", "schema": {"type": "integer"}}}
MEANING: dict[int, str] = {
    400: "The body cannot be read, or the prompt does not fit the model's window",
    401: "An API key is wanted, or the one sent is not valid",
    403: "The API key does not allow it, or a web page of another origin asks",
    404: "Something that the request names is not there",
    409: "It is there already, or cannot be changed now",
    413: "The body, or something in it, is too large",
    415: "The body is not of the media type that the address takes",
    422: "A field or parameter is missing, or has a type or value that it cannot have",
    429: "Too much is waiting already",
    503: "Redis, a worker or the embedding model is away",
    507: "A disk is full, so nothing was kept",
}


def error_responses(*statuses: int, model: type[BaseModel] = ProblemOut) -> Responses:
    """What a route says of the errors that it answers with, for its `responses`."""
    return {
        status: {
            "model": model,
            "description": MEANING[status],
            **({"headers": _LATER} if status in (429, 503) else {}),
        }
        for status in statuses
    }


def describe(app: FastAPI, *, keys_required: bool) -> None:
    """Correct what FastAPI says: problem documents have a media type of their own, errors of validation are problems
    too, and keys may not be needed.

    Args:
        keys_required: whether every request needs an API key.
    """
    described = app.openapi

    def openapi() -> dict[str, Any]:
        fresh = app.openapi_schema is None
        schema = described()
        if fresh:
            for path in schema["paths"].values():
                for operation in path.values():
                    _correct(operation, keys_required)
            for name in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(name, None)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _correct(operation: dict[str, Any], keys_required: bool) -> None:
    responses = operation["responses"]
    for status in sorted(responses):
        response = responses.pop(status)
        content = response.get("content", {})
        said = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        if said == "ProblemOut":
            content[MEDIA_TYPE] = content.pop("application/json")
        if said != "HTTPValidationError":  # where a route does not list 422, it never answers with it
            responses[status] = response
    if "security" in operation and not keys_required:
        operation["security"].append({})
