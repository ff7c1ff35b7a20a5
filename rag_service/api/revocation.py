"""Event streams end when their key is revoked: the endpoint is told that its client left, and the response ends.

Knows ASGI messages; knows no keys and no endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

RECHECK_S = 1.0
"""Seconds between two checks of the key of an open stream."""


class Revocable:
    """One request to `app`, whose event stream, if it answers with one, ends when `is_valid` says so.

    The stream ends without its last event, as one whose connection broke. A client that resumes it is rejected.
    """

    def __init__(self, app: ASGIApp, is_valid: Callable[[], Awaitable[bool]]) -> None:
        self._app = app
        self._is_valid = is_valid
        self._body_read = False
        self._streams = False
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watching() -> Message:
            return await (self._next(receive) if self._body_read else self._body(receive))

        async def unless_ended(message: Message) -> None:
            if self._ended:
                return
            if message["type"] == "http.response.start":
                self._streams = any(
                    name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                    for name, value in message["headers"]
                )
            await send(message)

        await self._app(scope, watching, unless_ended)
        if self._ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _body(self, receive: Receive) -> Message:
        message = await receive()
        self._body_read = not message.get("more_body", False)
        return message

    async def _next(self, receive: Receive) -> Message:
        """What comes after the body: that the client left, or that its key is not valid any more."""
        left = asyncio.ensure_future(receive())
        try:
            while True:
                done, _ = await asyncio.wait({left}, timeout=RECHECK_S)
                if done:
                    return left.result()
                if self._streams and not await self._is_valid():
                    self._ended = True
                    return {"type": "http.disconnect"}
        finally:
            left.cancel()
