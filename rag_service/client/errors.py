"""What can go wrong for a client of the service, as a tree of exceptions.

    RagError
    ├── RagConnectionError      nothing answers at the address, or the connection broke
    │   └── RagTimeout          it was silent for longer than the timeout
    ├── StreamBroken            an answer's stream broke and could not be taken up again; the answer is not lost
    └── RagProblem              the service answered with a problem document: `.status`, `.code`, `.detail`
        ├── AnswerFailed        an answer ended in an error after it had begun
        ├── InvalidRequest      400, 422
        ├── Unauthorized        401, 403
        ├── NotFound            404
        ├── Conflict            409
        ├── TooLarge            413
        ├── Overloaded          429
        └── Unavailable         5xx

Knows problem documents, also in the shape that OpenAI's clients read; knows no requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from rag_service.errors import RagServiceError


class RagError(RagServiceError):
    """Base of everything that a client raises. The message is a sentence for a person."""


class RagConnectionError(RagError):
    """Nothing answers, or the connection broke.

    Args:
        sent: whether the service may have seen the request.
    """

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class RagTimeout(RagConnectionError):
    """The service was silent for longer than the client's timeout."""


class StreamBroken(RagError):
    """`answer_id` and `last_event_id` say where to go on: `client.resume(answer_id, last_event_id)`."""

    def __init__(self, message: str, answer_id: str, last_event_id: str | None) -> None:
        super().__init__(message)
        self.answer_id = answer_id
        self.last_event_id = last_event_id


NOT_RAG_SERVICE = "not_rag_service"
"""Code of problems that something else at the address gave rise to."""


class RagProblem(RagError):
    """The service refused, or failed.

    Args:
        status: HTTP's.
        document: the problem document, with what else it holds; may be empty.
        retry_after: seconds after which the service says that trying again makes sense.
    """

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        said = document.get("error", document)
        said = said if isinstance(said, dict) else {}
        self.status = status
        self.document = dict(document)
        self.retry_after = retry_after
        self.code = str(said.get("code") or "")
        self.detail = str(said.get("detail") or said.get("message") or f"The service answered with status {status}.")
        super().__init__(self.detail)


class AnswerFailed(RagProblem):
    """An answer ended in an error after it had begun."""


class InvalidRequest(RagProblem):
    pass


class Unauthorized(RagProblem):
    pass


class NotFound(RagProblem):
    pass


class Conflict(RagProblem):
    pass


class TooLarge(RagProblem):
    pass


class Overloaded(RagProblem):
    pass


class Unavailable(RagProblem):
    pass


_ELSEWHERE = {301, 302, 303, 307, 308, 404, 405, 501}
"""What servers of other kinds say to requests for the service, without a code, and proxies before it do not."""
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
    """The JSON of a successful response that was read, None if it has no body. Raises RagProblem where it is none."""
    try:
        return response.json() if response.content else None
    except ValueError:
        raise RagProblem(response.status_code, _elsewhere(response)) from None


def problem(response: httpx.Response) -> RagProblem:
    """A response that was read and is no success, as an exception."""
    try:
        document = response.json()
    except ValueError:
        document = {}
    status = response.status_code
    if status in _ELSEWHERE and not (isinstance(document, dict) and {"code", "error"} & document.keys()):
        document = _elsewhere(response)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else RagProblem)
    told = response.headers.get("retry-after", "")
    retry_after = float(told) if told.isascii() and told.isdigit() else None
    return kind(status, document if isinstance(document, dict) else {}, retry_after)


def _elsewhere(response: httpx.Response) -> dict[str, Any]:
    url = response.url.copy_with(path="/", query=None, fragment=None)
    return {
        "detail": f"Something else than rag-service answers at {str(url).rstrip('/')} (status {response.status_code}). "
        "Start rag-service on another --port, or name a running service with base_url or RAG_URL.",
        "code": NOT_RAG_SERVICE,
    }


def connection_error(error: httpx.TransportError, url: str, timeout_s: float) -> RagConnectionError:
    """What a failed exchange means for a person."""
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return RagConnectionError(f"{url} is not an address; give one like http://127.0.0.1:8080")
    if isinstance(error, httpx.ReadTimeout):
        return RagTimeout(
            f"{url} took longer than {timeout_s:g} s: it is busy, perhaps with another answer of this session. "
            "Try again later.",
            sent=True,
        )
    if unsent:
        return RagConnectionError(
            f"Nothing answers at {url} ({error or type(error).__name__}). Start everything with `rag up`, or name a "
            "running service with base_url or RAG_URL."
        )
    return RagConnectionError(
        f"The connection to {url} broke ({error or type(error).__name__}), so it is not known what became of the "
        "request.",
        sent=True,
    )
