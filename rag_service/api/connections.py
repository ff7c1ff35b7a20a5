"""Limits of connections: their number, and the time in which a request must arrive.

The time of a response or of an event stream is not limited here. Knows uvicorn's protocol; knows no endpoint.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_service.api import problems
from rag_service.errors import Problem, Slow, Unavailable
from rag_service.setting_sections import Limits

RATE = 10_000
"""Slowest rate at which a body may arrive, in bytes a second; `body_timeout` is added to its time."""
SPARE = 16
"""Connections above the limit that are accepted for health probes."""
PROBES = {"/healthz", "/readyz", "/metrics"}


def protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The class that `uvicorn.Config(http=...)` takes."""
    return type("LimitedProtocol", (_LimitedProtocol,), {"limits": limits})


class _LimitedProtocol(H11Protocol):
    limits: Limits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting_for = ""
        self._started = 0.0
        self._bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        above = len(self.connections) - self.limits.connections
        if above > SPARE:
            self._reject(_too_many_connections())
        elif above > 0:
            self.app = _probes_only(self.app)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        """Set the time by which the whole head, or the next bytes of the body, must arrive."""
        part = {h11.IDLE: "head", h11.SEND_BODY: "body"}.get(self.conn.their_state, "")
        idle = part == "head" and self.timeout_keep_alive_task is not None  # between requests, uvicorn has a timeout
        if not part or idle or self.transport.is_closing():
            self._clear_deadline()
            return
        now = self.loop.time()
        if part != self._waiting_for:
            self._clear_deadline()
            self._waiting_for, self._started, self._bytes = part, now, 0
        if part == "head":
            deadline = self._started + self.limits.head_timeout
        else:
            deadline = min(now, self._started + self._bytes / RATE) + self.limits.body_timeout
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_at(deadline, self._expired)

    def _clear_deadline(self) -> None:
        self._waiting_for = ""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expired(self) -> None:
        if self.flow.read_paused:  # the service is slow, not the client
            self._started = self.loop.time()
            self._deadline = self.loop.call_later(self.limits.body_timeout, self._expired)
            return
        part = self._waiting_for
        self._reject(Slow(f"The request's {part} did not arrive in time. Send the request again, faster."))

    def _reject(self, problem: Problem) -> None:
        self._clear_deadline()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = problems.response(problem, "/")
            response.headers["connection"] = "close"
            head = h11.Response(status_code=response.status_code, headers=response.raw_headers)
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _too_many_connections() -> Unavailable:
    return Unavailable(
        "Too many connections are open. Close some or try again shortly. RAG_LIMITS__CONNECTIONS sets the limit.",
        "too_many_connections",
        retry_after=5,
    )


def _probes_only(app: ASGIApp) -> ASGIApp:
    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        response = problems.response(_too_many_connections(), scope["path"])
        response.headers["connection"] = "close"
        await response(scope, receive, send)

    return limited
