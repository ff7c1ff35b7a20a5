"""The HTTP API as the commands use it: the Python client, whose errors end a command. Prints nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import httpx

from rag_service.cli.console import CliError
from rag_service.client.connection import Connection
from rag_service.client.errors import NOT_RAG_SERVICE, RagConnectionError, RagError, RagProblem, StreamBroken
from rag_service.client.events import ServerEvent
from rag_service.client.transport import Retries
from rag_service.stack.exit_status import FAILED, UNREACHABLE, USAGE

__all__ = ["Api", "Refused", "ServerEvent"]

_SAID_HERE = {
    "base_url or RAG_URL": "--url or RAG_URL",
    "create it first, or list the collections there are": "`rag ingest PATH… -c NAME` makes one, "
    "`rag collections list` lists those there are",
    "GET /v1/sessions lists": "`rag sessions list` lists",
}
"""What the service and its client tell a program to do, and what that is on the command line."""
_OFTEN = 1_000_000
"""Retries that only patience bounds."""


class Refused(CliError):
    """The service answered with a problem document."""

    def __init__(self, problem: RagProblem) -> None:
        advice = " Here: set RAG_API_KEY, or give --api-key." if problem.status == 401 else ""
        status = {"invalid_request": USAGE, NOT_RAG_SERVICE: UNREACHABLE}.get(problem.code, FAILED)
        super().__init__(_said_here(problem.detail) + advice, status)
        self.http_status = problem.status
        self.code = problem.code


class Api:
    """A client of a running stack. A context manager.

    Args:
        url: where the API is.
        patience: seconds for which requests that are refused as too early (429, 503) are sent again.
        api_key: sent with every request.

    Every method raises Refused, and CliError when nothing answers.
    """

    def __init__(
        self,
        url: str,
        patience: float = 0.0,
        transport: httpx.BaseTransport | None = None,
        *,
        api_key: str | None = None,
    ) -> None:
        self.url = url
        retries = Retries(_OFTEN if patience else 0, patience, lost=False)
        with _told():
            self._service = Connection(url, api_key or "", retries=retries, transport=transport)

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service.close()

    def request(self, method: str, path: str, **options: Any) -> Any:
        """The body of a successful answer, parsed; None if it has none."""
        with _told():
            return self._service.request(method, path, **options)

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[ServerEvent]:
        """The events of an answer up to `done` or `error`; an interrupted stream is resumed where it broke off."""
        with _told():
            yield from self._service.events(path, body)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """The client's errors as those of a command."""
    try:
        yield
    except RagProblem as problem:
        raise Refused(problem) from None
    except RagError as error:
        away = isinstance(error, RagConnectionError | StreamBroken)
        raise CliError(_said_here(str(error)), *([UNREACHABLE] if away else [])) from None


def _said_here(text: str) -> str:
    for theirs, ours in _SAID_HERE.items():
        text = text.replace(theirs, ours)
    return text
