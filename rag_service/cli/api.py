"""The HTTP API as the commands use it. Knows requests, refusals and retries; prints nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from rag_service.cli.console import UNREACHABLE, CliError

TIMEOUT_S = 60.0
"""Seconds of silence after which a request is given up."""
RESUMES = 20
"""How often an interrupted stream is resumed in a row before giving up."""


class Refused(CliError):
    """The service answered with a problem document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        said = str(problem.get("detail") or f"The service answered with status {status}.")
        advice = " Here: set RAG_API_KEY, or give --api-key." if status == 401 else ""
        super().__init__(said + advice)
        self.http_status = status
        self.code = str(problem.get("code", ""))


@dataclass(frozen=True)
class ServerEvent:
    id: str | None
    name: str
    data: dict[str, Any]


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
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise CliError("The API key holds characters that no key has; copy it again from where it was shown.")
        self.url = url
        self._patience = patience
        timeout = httpx.Timeout(TIMEOUT_S, connect=5.0)
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._client = httpx.Client(base_url=url, timeout=timeout, transport=transport, headers=headers)

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def request(self, method: str, path: str, **options: Any) -> Any:
        """The body of a successful answer, parsed; None if it has none."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                response = self._client.request(method, path, **options)
            except httpx.TransportError as error:
                raise self._nothing_there(error) from None
            if response.is_success:
                return response.json() if response.content else None
            if response.status_code not in (429, 503) or time.monotonic() >= deadline:
                raise _refused(response)
            wait = response.headers.get("retry-after", "1")
            time.sleep(min(float(wait) if wait.isdigit() else 1.0, max(deadline - time.monotonic(), 0.0)))

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[ServerEvent]:
        """The events of an answer up to `done` or `error`; an interrupted stream is resumed where it broke off."""
        last, answer_id, failures = None, None, 0
        method, where, options = "POST", path, {"json": body}
        while True:
            try:
                for event in self._events(method, where, **options):
                    if event.id is not None:
                        last, failures = event.id, 0
                    answer_id = answer_id or event.data.get("answer_id")
                    if event.id is None and answer_id:  # an interruption that is not the answer's end
                        break
                    yield event
                    if event.name in ("done", "error"):
                        return
            except httpx.TransportError as error:
                if answer_id is None:
                    raise self._nothing_there(error) from None
            except Refused as refused:
                if answer_id is None or refused.http_status != 503:
                    raise
            failures += 1
            if failures > RESUMES:
                raise CliError(
                    f"The stream broke off. The answer is not lost: read it at {self.url}/v1/answers/{answer_id}",
                    UNREACHABLE,
                )
            time.sleep(min(0.25 * failures, 2.0))
            method, where = "GET", f"/v1/answers/{answer_id}/events"
            options = {"headers": {"Last-Event-ID": last or "0-0"}}

    def _events(self, method: str, path: str, **options: Any) -> Iterator[ServerEvent]:
        with self._client.stream(method, path, **options) as response:
            if not response.is_success:
                response.read()
                raise _refused(response)
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                elif "data" in fields:
                    yield ServerEvent(fields.get("id"), fields.get("event", "message"), json.loads(fields["data"]))
                    fields = {}

    def _nothing_there(self, error: Exception) -> CliError:
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return CliError(f"{self.url} is not an address; give one like http://127.0.0.1:8080", UNREACHABLE)
        if isinstance(error, httpx.ReadTimeout):
            return CliError(
                f"{self.url} took longer than {TIMEOUT_S:g} s: it is busy, perhaps with another answer of this "
                "session. Try again later.",
                UNREACHABLE,
            )
        return CliError(
            f"Nothing answers at {self.url} ({error or type(error).__name__}). Start everything with `rag up` in "
            "another terminal, or name a running service with --url or RAG_URL.",
            UNREACHABLE,
        )


def _refused(response: httpx.Response) -> Refused:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    return Refused(response.status_code, problem if isinstance(problem, dict) else {})
