"""What can go wrong for a client of the service, as a tree of exceptions.

    RagError
    ├── RagConnectionError      nothing answers at the address, or the connection broke
    │   └── RagTimeout          it was silent for longer than the timeout
    ├── StreamBroken            an answer's stream broke and could not be resumed; the answer is not lost
    └── RagProblem              the service answered with a problem document: `.status`, `.code`, `.detail`
        ├── AnswerFailed        an answer failed after it had started
        ├── InvalidRequest      400, 422
        ├── Unauthorized        401, 403
        ├── NotFound            404
        ├── Conflict            409
        ├── TooLarge            413
        ├── Overloaded          429
        └── Unavailable         5xx

Reads problem documents, also in the shape that OpenAI's clients read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from rag_service.service_error import RagServiceError


class RagError(RagServiceError):
    """Base of everything that a client raises. The message is a sentence for a person."""


class RagConnectionError(RagError):
    """Nothing answers at the address, or the connection broke.

    Args:
        sent: whether the service may have seen the request.
    """

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class RagTimeout(RagConnectionError):
    """The service was silent for longer than the client's timeout."""


class StreamBroken(RagError):
    """A stream could not be resumed for now; `client.resume(answer_id, last_event_id)` tries again."""

    def __init__(self, message: str, answer_id: str, last_event_id: str | None) -> None:
        super().__init__(message)
        self.answer_id = answer_id
        self.last_event_id = last_event_id


NOT_RAG_SERVICE = "not_rag_service"
"""Code of the problem that something other than rag-service answers at the address."""

KEY_REQUIRED = "key_required"
"""Code of the problem that a request had no key."""


class RagProblem(RagError):
    """The service rejected the request, or failed.

    Args:
        status: the HTTP status.
        document: the problem document with all its fields; may be empty.
        retry_after: seconds after which a new attempt makes sense, as the service says.
    """

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        error = document.get("error", document)
        fields = error if isinstance(error, dict) else {}
        self.status = status
        self.document = dict(document)
        self.retry_after = retry_after
        self.code = str(fields.get("code") or "")
        detail = fields.get("detail") or fields.get("message")
        self.detail = str(detail or f"The service answered with status {status}.")
        advice = " In Python, give `api_key` or set RAG_API_KEY." if self.code == KEY_REQUIRED else ""
        super().__init__(f"{self.detail}{advice}")


class AnswerFailed(RagProblem):
    """An answer failed after it had started."""


class InvalidRequest(RagProblem):
    """Status 400 or 422: the request is invalid."""


class Unauthorized(RagProblem):
    """Status 401 or 403: the key is missing, invalid or not sufficient."""


class NotFound(RagProblem):
    """Status 404."""


class Conflict(RagProblem):
    """Status 409: it exists already, or is in use."""


class TooLarge(RagProblem):
    """Status 413: the request is too large."""


class Overloaded(RagProblem):
    """Status 429: too many requests wait; `retry_after` says when to try again."""


class Unavailable(RagProblem):
    """Status 5xx: the service failed or cannot answer now."""


_NOT_OURS = {301, 302, 303, 307, 308, 404, 405, 501}
"""Statuses without a code that only another server sends: neither the service nor a proxy before it does."""
_BY_STATUS: dict[int, type[RagProblem]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: InvalidRequest,
    429: Overloaded,
}


def parsed(response: httpx.Response) -> Any:
    """The JSON of a successful response, None if it has no body. Raises RagProblem if the body is not JSON."""
    try:
        return response.json() if response.content else None
    except ValueError:
        raise RagProblem(response.status_code, _not_rag_service(response)) from None


def problem(response: httpx.Response) -> RagProblem:
    """An error response as an exception. Its body must have been read."""
    try:
        document = response.json()
    except ValueError:
        document = {}
    status = response.status_code
    if status in _NOT_OURS and not (isinstance(document, dict) and {"code", "error"} & document.keys()):
        document = _not_rag_service(response)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else RagProblem)
    header = response.headers.get("retry-after", "")
    retry_after = float(header) if header.isascii() and header.isdigit() else None
    return kind(status, document if isinstance(document, dict) else {}, retry_after)


def _not_rag_service(response: httpx.Response) -> dict[str, Any]:
    url = response.url.copy_with(path="/", query=None, fragment=None)
    return {
        "detail": f"Another program answers at {str(url).rstrip('/')} (status {response.status_code}). "
        "Start rag-service on another --port, or name a running service with base_url or RAG_URL.",
        "code": NOT_RAG_SERVICE,
    }


def connection_error(error: httpx.TransportError, url: str, timeout_s: float) -> RagConnectionError:
    """A failed request as an exception whose message says what to do."""
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return RagConnectionError(f"{url} is not an address; give one like http://127.0.0.1:8080.")
    if isinstance(error, httpx.ReadTimeout):
        return RagTimeout(
            f"{url} did not answer within {timeout_s:g} s. It may be busy with another answer of this session. "
            "Try again later.",
            sent=True,
        )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return RagConnectionError(
            f"Nothing answers at {url} ({error or type(error).__name__}). Start the service with `rag up`, or name a "
            "running service with base_url or RAG_URL."
        )
    return RagConnectionError(
        f"The connection to {url} broke ({error or type(error).__name__}), so the request may "
        "or may not have been carried out.",
        sent=True,
    )
