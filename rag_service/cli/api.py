"""The HTTP API as the commands use it: the Python client, whose errors end a command. Prints nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import httpx

from rag_service.cli.console import FAILED, UNREACHABLE, USAGE, CliError
from rag_service.client.connection import Connection
from rag_service.client.errors import RagConnectionError, RagError, RagProblem, StreamBroken
from rag_service.client.events import ServerEvent
from rag_service.client.transport import Retries

__all__ = ["Api", "Refused", "ServerEvent"]

_OFTEN = 1_000_000
"""Retries that only patience bounds."""


class Refused(CliError):
    """The service answered with a problem document."""

    def __init__(self, problem: RagProblem) -> None:
        advice = " Here: set RAG_API_KEY, or give --api-key." if problem.status == 401 else ""
        super().__init__(problem.detail + advice, USAGE if problem.code == "invalid_request" else FAILED)
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
        raise CliError(str(error), *([UNREACHABLE] if away else [])) from None
