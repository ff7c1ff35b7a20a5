"""The HTTP API as the commands use it: the Python client's connection, whose errors end a command. Prints nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import httpx

from rag_service.cli.console import CliError
from rag_service.client.calls import Call
from rag_service.client.connection import Connection
from rag_service.client.errors import NOT_RAG_SERVICE, RagConnectionError, RagError, RagProblem, StreamBroken
from rag_service.client.events import ServerEvent
from rag_service.client.transport import Retries
from rag_service.stack.exit_status import FAILED, UNREACHABLE, USAGE

__all__ = ["Api", "Rejected", "ServerEvent"]

_CREATE_OR_LIST = "create it first, or list the collections there are"
_LISTED = "GET /v1/collections lists those there are"
_COMMAND_LINE_ADVICE = {
    "base_url or RAG_URL": "--url or RAG_URL",
    _CREATE_OR_LIST: "`rag collections list` lists those there are",
    _LISTED: "`rag collections list` lists those there are",
    "Send another one": "Give another one with --api-key or RAG_API_KEY",
    "list its documents for their ids": "`rag docs list -c NAME` lists those there are",
    "GET /v1/sessions lists": "`rag sessions list` lists",
    "GET /v1/sessions/ID lists": "`rag sessions show ID --json` lists",
    "Field 'session_id' should be": "The id of a session should be",
}
"""Advice for programs, from the service and its client -> the same for the command line."""
_ASKING_ADVICE = dict.fromkeys(
    (_CREATE_OR_LIST, _LISTED), "`rag ingest PATH… -c NAME` makes one, `rag collections list` lists those there are"
)
"""The same for commands that ask a collection, which may be one that is still to come."""
_INVALID_KEY = "invalid_key"
"""Code of a request whose key the service does not know."""
_UNLIMITED = 1_000_000
"""Retries that only `patience` bounds."""


class Rejected(CliError):
    """The service answered with a problem document."""

    def __init__(self, problem: RagProblem, key_from: str = "", asking: bool = False) -> None:
        advice = ""
        if problem.status == 401:
            advice = f" {key_from}".rstrip()
            if problem.code != _INVALID_KEY:
                advice += " Set RAG_API_KEY, or use --api-key."
        status = {"invalid_request": USAGE, NOT_RAG_SERVICE: UNREACHABLE}.get(problem.code, FAILED)
        super().__init__(_for_command_line(problem.detail, asking) + advice, status)
        self.http_status = problem.status
        self.code = problem.code


class Api(Connection):
    """A connection to a running stack. A context manager.

    Args:
        url: address of the API.
        patience: seconds for which requests rejected with 429 or 503 are sent again.
        api_key: sent with every request.
        key_from: a sentence that says where the key came from, or where none was found.
        not_found: a sentence that says where no stack was found; "" if the address is no guess.
        starting: one that says, instead of that, where a stack is not ready yet; "" if none is starting.
        asking: whether the command asks a collection; it is told how to make one that does not exist.

    Every method raises Rejected, and CliError if nothing answers.
    """

    def __init__(
        self,
        url: str,
        patience: float = 0.0,
        transport: httpx.BaseTransport | None = None,
        *,
        api_key: str | None = None,
        key_from: str = "",
        not_found: str = "",
        starting: str = "",
        asking: bool = False,
    ) -> None:
        retries = Retries(_UNLIMITED if patience else 0, patience, lost=False)
        self._key_from = key_from
        self._not_found = not_found
        self._starting = starting
        self._asking = asking
        with self._command_errors():
            super().__init__(url, api_key or "", retries=retries, transport=transport)

    def request(self, method: str, path: str, **options: Any) -> Any:
        with self._command_errors():
            return super().request(method, path, **options)

    def json(self, call: Call[Any]) -> Any:
        """The JSON of a call's response, as sent; None if it has no body."""
        return self.request(call.method, call.path, **call.options())

    def resumed(self, call: Call[Any], answer_id: str | None = None, last: str | None = None) -> Generator[ServerEvent]:
        with self._command_errors():
            yield from super().resumed(call, answer_id, last)

    @contextlib.contextmanager
    def _command_errors(self) -> Iterator[None]:
        """Turns the client's errors into those of a command."""
        try:
            yield
        except RagProblem as problem:
            raise Rejected(problem, self._key_from, self._asking) from None
        except RagError as error:
            status = UNREACHABLE if isinstance(error, RagConnectionError | StreamBroken) else FAILED
            guessed = self._not_found if isinstance(error, RagConnectionError) and not error.sent else ""
            told = guessed and self._starting
            raise CliError(told or f"{_for_command_line(str(error))} {guessed}".rstrip(), status) from None


def _for_command_line(text: str, asking: bool = False) -> str:
    for advice, command_line_advice in (_COMMAND_LINE_ADVICE | (_ASKING_ADVICE if asking else {})).items():
        text = text.replace(advice, command_line_advice)
    return text
