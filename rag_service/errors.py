"""The service's exceptions. Each `Problem` becomes a problem document (RFC 9457) with a stable code.

    RagServiceError
    ├── InvalidSettings                a setting has a value that is not allowed (never reaches HTTP)
    └── Problem
        ├── BadRequest           400   the body cannot be read: not JSON, not UTF-8
        │   └── ContextOverflow  400   the prompt does not fit the model's window
        ├── Unauthorized         401   no API key, or an invalid one
        ├── Forbidden            403   the key does not allow it, or a web page of another origin sent it
        ├── NotFound             404   unknown collection, document, answer, session, job
        ├── Conflict             409   the object already exists, or cannot be changed now
        ├── Slow                 408   the request did not arrive in time
        ├── TooLarge             413   the body, question or upload is above its limit
        ├── UnsupportedMediaType 415   the path does not accept this media type
        ├── UnknownHost          421   the Host header does not name this service
        ├── InvalidRequest       422   a field has a wrong type or value
        ├── Overloaded           429   the queue is full; Retry-After
        ├── BadGateway           502   a model server rejected the request, or cut its answer off
        ├── Unavailable          503   Redis or workers do not answer; Retry-After
        └── StorageFull          507   the disk of the service or of Redis is full

Knows status codes and sentences; knows no FastAPI.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar

from rag_service.service_error import RagServiceError


class InvalidSettings(RagServiceError):
    """A setting has a value that is not allowed."""


class Problem(RagServiceError):
    """An error that a client sees as `{type, title, status, detail, code}`.

    Args:
        detail: what is wrong and what to do, one or two sentences.
        code: stable name of the error, for programs.
        retry_after: seconds after which a client should try again.
        extra: more members of the problem document.
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
    """Code `invalid_key` if the request had a key, `signed_out` if it had the cookie of a sign-in that has ended,
    `key_required` if it had none."""

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


class BadGateway(Problem):
    status = 502
    default_code = "bad_gateway"


class Unavailable(Problem):
    status = 503
    default_code = "unavailable"


class StorageFull(Problem):
    status = 507
    default_code = "storage_full"


def problem_document(status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """An RFC 9457 problem document; `type` is `about:blank`, so `title` is the phrase of the status."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **extra,
    }


def store_unavailable() -> Unavailable:
    return Unavailable(
        "The database of the collections cannot be used, so the service changed nothing. Try again shortly. If the "
        "error stays, the service's log and `rag doctor` say what to check.",
        "store_unavailable",
        retry_after=5,
    )


def redis_unavailable() -> Unavailable:
    return Unavailable(
        "Redis does not answer, so the service changed nothing. Try again shortly. If the error stays, check that "
        "Redis runs and that RAG_REDIS_URL points to it; `rag doctor` shows both.",
        "redis_unavailable",
        retry_after=5,
    )


def no_worker() -> Unavailable:
    return Unavailable(
        "No worker is ready, so the request was not accepted. If the service has just been started, its worker is "
        "still loading the model: send the request again in a minute. Else start a worker with `rag worker`, or "
        "everything with `rag up`.",
        "no_worker",
        retry_after=10,
    )


def storage_full() -> StorageFull:
    return StorageFull(
        "The disk of the service is full, so the request was not stored. Free space in the data folder "
        "(RAG_DATA_DIR), then send the request again."
    )


def database_unavailable() -> Unavailable:
    return Unavailable(
        "PostgreSQL does not answer, so the service changed nothing. Try again shortly. If the error stays, check that "
        "it runs and takes writes, and that RAG_STORE_URL points to it.",
        "database_unavailable",
        retry_after=5,
    )


def database_full() -> StorageFull:
    return StorageFull(
        "The disk of PostgreSQL is full, so the request was not stored. Free space on it, then send the request again."
    )


def redis_disk_full() -> StorageFull:
    return StorageFull(
        "Redis cannot write to its disk, so the request was not stored. Free space on the disk of Redis, then send "
        "the request again."
    )


def redis_memory_full() -> Unavailable:
    return Unavailable(
        "Redis is out of memory, so the request was not stored. Raise its maxmemory or erase sessions, then send the "
        "request again.",
        "redis_out_of_memory",
        retry_after=60,
    )
