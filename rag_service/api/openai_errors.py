"""Errors as OpenAI's API writes them, at the addresses that speak its language.

`{"error": {"message", "type", "param", "code"}}`. Codes are this service's own, but for those that OpenAI's clients
know by name; statuses too, but for 422, which OpenAI answers with 400. Knows problems; knows no FastAPI.
"""

from __future__ import annotations

from typing import Any

from rag_service.errors import Problem

_PATHS = ("/v1/chat/", "/v1/completions", "/v1/embeddings", "/v1/models")
_CODES = {"context_overflow": "context_length_exceeded", "invalid_key": "invalid_api_key"}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def speaks_openai(path: str) -> bool:
    """Whether errors at this address have OpenAI's shape."""
    return path.startswith(_PATHS)


def status_of(problem: Problem) -> int:
    return 400 if problem.status == 422 else problem.status


def error_document(problem: Problem, status: int | None = None) -> dict[str, Any]:
    """The body of an error; of another status than its class has where `status` is given."""
    status = status_of(problem) if status is None else status
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {
        "error": {
            "message": problem.detail,
            "type": kind,
            "param": problem.extra.get("param"),
            "code": _CODES.get(problem.code, problem.code),
        }
    }
