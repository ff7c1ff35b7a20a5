"""Errors in the OpenAPI document: the error statuses of each route, and their bodies as problem documents.

Knows statuses and media types; knows no endpoint.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from rag_service.api.problems import MEDIA_TYPE
from rag_service.contract.responses import ProblemOut

Responses = dict[int | str, dict[str, Any]]

_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait before trying again", "schema": {"type": "integer"}}}
MEANING: dict[int, str] = {
    400: "The body cannot be read, or the prompt does not fit the model's window",
    401: "The request has no API key, or an invalid one",
    403: "The API key does not allow the request, or a web page of another origin sent it",
    404: "Something that the request names does not exist",
    405: "The address does not accept the method",
    409: "The object already exists, or cannot be changed now",
    413: "The body or a part of it is too large",
    415: "The path does not accept the body's media type",
    422: "A field or parameter is missing, or has a wrong type or value",
    429: "Too many jobs wait for a worker",
    502: "The model server rejected the request, or cut its answer off",
    503: "Redis, a worker or the embedding model is unavailable",
    507: "A disk is full, so the request was not stored",
}


def error_responses(*statuses: int, model: type[BaseModel] = ProblemOut) -> Responses:
    """The errors of a route, for its parameter `responses`."""
    return {
        status: {
            "model": model,
            "description": MEANING[status],
            **({"headers": _RETRY_AFTER} if status in (429, 503) else {}),
        }
        for status in statuses
    }


def describe(app: FastAPI, *, keys_required: bool) -> None:
    """Correct FastAPI's OpenAPI document: the media type of problem documents, validation errors as problem documents,
    whether keys are required, and summaries, which are the first sentences of descriptions.

    Args:
        keys_required: whether every request needs an API key.
    """
    original = app.openapi

    def openapi() -> dict[str, Any]:
        corrected = app.openapi_schema is not None
        schema = original()
        if not corrected:
            for path in schema["paths"].values():
                for operation in path.values():
                    _correct(operation, keys_required)
                    operation["summary"] = _first_sentence(operation.get("description", operation["summary"]))
            for name in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(name, None)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _first_sentence(text: str) -> str:
    sentence, _, _ = " ".join(text.split()).partition(". ")
    return sentence.rstrip(".").replace("`", "")


def _correct(operation: dict[str, Any], keys_required: bool) -> None:
    responses = operation["responses"]
    for status in sorted(responses):
        response = responses.pop(status)
        content = response.get("content", {})
        model = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        if model == "ProblemOut":
            content[MEDIA_TYPE] = content.pop("application/json")
        if model != "HTTPValidationError":  # FastAPI adds 422 to all routes; those that can answer it list it
            responses[status] = response
    if "security" in operation and not keys_required:
        operation["security"].append({})
