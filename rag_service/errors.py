"""Everything the service refuses, as a tree of exceptions, each a problem document (RFC 9457) with a stable code.

    RagServiceError
    ├── InvalidSettings                a setting that is not allowed (never reaches HTTP)
    └── Problem
        ├── BadRequest           400   malformed beyond its fields: not JSON, not UTF-8
        │   └── ContextOverflow  400   the prompt does not fit the model's window
        ├── Unauthorized         401   no API key, or one that is not valid
        ├── Forbidden            403   the key's role or collections do not allow it; a foreign page asks
        ├── NotFound             404   unknown collection, document, answer, session, job
        ├── Conflict             409   it exists already, or cannot change now
        ├── Slow                 408   the request did not come in time
        ├── TooLarge             413   body, question or upload above its limit
        ├── UnsupportedMediaType 415   a body that is not of the type the address takes
        ├── UnknownHost          421   a name that the service does not go by
        ├── InvalidRequest       422   a field with a wrong type or value
        ├── Overloaded           429   the queue is full; Retry-After
        ├── Unavailable          503   Redis or workers away; Retry-After
        └── StorageFull          507   a disk is full, the service's or Redis's

Knows status codes and sentences; knows no FastAPI.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar


class RagServiceError(Exception):
    """Base of everything this package raises on purpose. The message is a sentence for a person."""


class InvalidSettings(RagServiceError):
    """A setting has a value that is not allowed."""


class Problem(RagServiceError):
    """An error that a client sees as `{type, title, status, detail, code}`.

    Args:
        detail: what is wrong and what to do, one or two sentences.
        code: stable name of the error, for programs.
        retry_after: seconds after which trying again makes sense.
        extra: further members of the problem document.
    """

    status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal_error"

    def __init__(self, detail: str, code: str | None = None, *, retry_after: int | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.default_code
        self.retry_after = retry_after
        self.extra = extra

    def document(self) -> dict[str, Any]:
        return problem_document(self.status, self.code, self.detail, **self.extra)

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class BadRequest(Problem):
    status = 400
    default_code = "bad_request"


class ContextOverflow(BadRequest):
    default_code = "context_overflow"


class Unauthorized(Problem):
    """`invalid_key` where a key was sent; `key_required` where none was."""

    status = 401
    default_code = "key_required"

    def headers(self) -> dict[str, str]:
        error = ', error="invalid_token"' if self.code == "invalid_key" else ""
        return {**super().headers(), "WWW-Authenticate": f'Bearer realm="rag-service"{error}'}


class Forbidden(Problem):
    status = 403
    default_code = "forbidden"


class NotFound(Problem):
    status = 404
    default_code = "not_found"


class Conflict(Problem):
    status = 409
    default_code = "conflict"


class Slow(Problem):
    status = 408
    default_code = "request_timeout"


class TooLarge(Problem):
    status = 413
    default_code = "body_too_large"


class UnknownHost(Problem):
    status = 421
    default_code = "unknown_host"


class UnsupportedMediaType(Problem):
    status = 415
    default_code = "unsupported_media_type"


class InvalidRequest(Problem):
    status = 422
    default_code = "invalid_request"


class Overloaded(Problem):
    status = 429
    default_code = "queue_full"


class Unavailable(Problem):
    status = 503
    default_code = "unavailable"


class StorageFull(Problem):
    status = 507
    default_code = "storage_full"


def problem_document(status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """An RFC 9457 problem document; `type` is `about:blank`, so `title` is the status's phrase."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **extra,
    }


def redis_unavailable() -> Unavailable:
    return Unavailable(
        "Redis does not answer, so nothing was changed. Try again shortly; if it stays away, check that it runs and "
        "that RAG_REDIS_URL points to it (`rag doctor` tells).",
        "redis_unavailable",
        retry_after=5,
    )


def no_worker() -> Unavailable:
    return Unavailable(
        "No worker is running, so nothing was enqueued. Start one with `rag worker` (or `rag up` for everything) and "
        "send the request again.",
        "no_worker",
        retry_after=10,
    )


def storage_full() -> StorageFull:
    return StorageFull(
        "The disk of the service is full, so nothing was kept of the request. Free space in the data folder "
        "(RAG_DATA_DIR), then send it again."
    )


def redis_disk_full() -> StorageFull:
    return StorageFull(
        "Redis cannot write to its disk and takes no changes, so nothing was kept of the request. Free space where "
        "Redis keeps its data, then send it again."
    )


def redis_memory_full() -> Unavailable:
    return Unavailable(
        "Redis is out of memory, so nothing was kept of the request. Raise its maxmemory or erase sessions, then send "
        "it again.",
        "redis_out_of_memory",
        retry_after=60,
    )
