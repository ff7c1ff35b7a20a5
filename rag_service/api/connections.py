"""How long a connection may take over a request, and how many there may be.

Knows uvicorn's protocol; knows no endpoint. What an answer takes, or a stream of events, is not limited here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_service.api import problems
from rag_service.errors import Problem, Slow, Unavailable
from rag_service.settings import Limits

RATE = 10_000
"""Fewest bytes of a body a second, beyond the time it may be silent."""
SPARE = 16
"""Connections above the limit that are taken for probes."""
PROBES = {"/healthz", "/readyz", "/metrics"}


def protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The class that `uvicorn.Config(http=...)` takes."""
    return type("LimitedProtocol", (_Limited,), {"limits": limits})


class _Limited(H11Protocol):
    limits: Limits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting_for = ""
        self._begun = 0.0
        self._bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        above = len(self.connections) - self.limits.connections
        if above > SPARE:
            self._refuse(_full())
        elif above > 0:
            self.app = _probes_alone(self.app)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Set the time by which more must come: of a head all, of a body something."""
        state = {h11.IDLE: "head", h11.SEND_BODY: "body"}.get(self.conn.their_state, "")
        kept_alive = state == "head" and self.timeout_keep_alive_task is not None  # between requests: uvicorn's time
        if not state or kept_alive or self.transport.is_closing():
            self._forget()
            return
        now = self.loop.time()
        if state != self._waiting_for:
            self._forget()
            self._waiting_for, self._begun, self._bytes = state, now, 0
        if state == "head":
            end = self._begun + self.limits.head_timeout
        else:
            end = min(now, self._begun + self._bytes / RATE) + self.limits.body_timeout
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_at(end, self._late)

    def _forget(self) -> None:
        self._waiting_for = ""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        if self.flow.read_paused:  # the service is the slow one
            self._begun = self.loop.time()
            self._deadline = self.loop.call_later(self.limits.body_timeout, self._late)
            return
        part = self._waiting_for
        self._refuse(Slow(f"The request's {part} did not come in time; send it again, whole and faster."))

    def _refuse(self, problem: Problem) -> None:
        self._forget()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problems.response(problem, "/")
            answer.headers["connection"] = "close"
            reply = h11.Response(status_code=answer.status_code, headers=answer.raw_headers)
            for event in (reply, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _full() -> Unavailable:
    return Unavailable(
        "Too many connections are open. Close some (RAG_LIMITS__CONNECTIONS says how many there may be), or try again "
        "shortly.",
        "too_many_connections",
        retry_after=5,
    )


def _probes_alone(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        response = problems.response(_full(), scope["path"])
        response.headers["connection"] = "close"
        await response(scope, receive, send)

    return answer
