"""Errors in the format of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`.

Codes and statuses are those of this service, with two exceptions: the codes that OpenAI's clients know by name, and 400
in place of 422. Knows problems; knows no FastAPI.
"""

from __future__ import annotations

from typing import Any

from rag_service.errors import Problem

_PATHS = ("/v1/chat/", "/v1/completions", "/v1/embeddings", "/v1/models")
_CODES = {
    "context_overflow": "context_length_exceeded",
    "prompt_too_long": "context_length_exceeded",
    "invalid_key": "invalid_api_key",
}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def is_openai(path: str) -> bool:
    """Whether a path is one of OpenAI's endpoints, so that its errors have OpenAI's format."""
    return path.startswith(_PATHS)


def status_of(problem: Problem) -> int:
    return 400 if problem.status == 422 else problem.status


def error_document(problem: Problem, status: int | None = None) -> dict[str, Any]:
    """The body of an error. `status` replaces the status of the problem's class."""
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


def headers_of(document: dict[str, Any]) -> dict[str, str]:
    """The headers of a response with such a body: none of its own."""
    return {}
