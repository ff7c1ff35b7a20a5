"""Errors in the format of Anthropic's API: `{"type": "error", "error": {"type", "message", "details"}, "request_id"}`.

`details.error_code` is this service's own code, which Anthropic's client shows as `error_code`. Statuses are those of
this service, with 400 in place of 422. Knows problems; knows no FastAPI.
"""

from __future__ import annotations

import uuid
from typing import Any

from rag_service.errors import Problem

REQUEST_ID = "request-id"
"""The header with the id that an error's body has as `request_id`."""
_PATH = "/v1/messages"
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def is_anthropic(path: str) -> bool:
    """Whether a path is one of Anthropic's endpoints, so that its errors have Anthropic's format."""
    return path == _PATH or path.startswith(f"{_PATH}/")


def new_request_id() -> str:
    return f"req_{uuid.uuid4().hex}"


def status_of(problem: Problem) -> int:
    return 400 if problem.status == 422 else problem.status


def error_document(problem: Problem, status: int | None = None, request_id: str | None = None) -> dict[str, Any]:
    """The body of an error.

    Args:
        status: replaces the status of the problem's class.
        request_id: default: a new one.
    """
    status = status_of(problem) if status is None else status
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {"type": kind, "message": problem.detail, "details": {"error_code": problem.code}}
    return {"type": "error", "error": error, "request_id": request_id or new_request_id()}


def headers_of(document: dict[str, Any]) -> dict[str, str]:
    """The headers of a response with such a body."""
    return {REQUEST_ID: document["request_id"]}
