"""Requests and streams over httpx, sent again and resumed if that is safe. Knows no call of the service."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any, Self, TypeVar

import anyio
import httpx
from httpx_sse import EventSource

from rag_service.client.calls import Call
from rag_service.client.errors import RagError, connection_error, parsed, problem
from rag_service.client.events import ENDED, Resumption, ServerEvent, SingleStream, server_event
from rag_service.client.transport import Address, Attempts, Retries

T = TypeVar("T")


class Connection:
    """A service, over connections that are kept open. A context manager; `RagClient` describes the arguments."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = None,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.address = Address.of(base_url, api_key, timeout)
        self._retries = retries or Retries()
        self._http = httpx.Client(**self.address.client_options(), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """The parsed response of a call; a rejected or lost request is sent again as `retries` says."""
        return call.parse(self.request(call.method, call.path, **call.options()))

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Any request with httpx's options; the JSON of a successful response, None if it has no body."""
        attempts = Attempts(self._retries, method)
        while True:
            try:
                response = self._http.request(method, path, **options)
                if response.is_success:
                    return parsed(response)
                error: RagError = problem(response)
            except httpx.TransportError as failure:
                error = connection_error(failure, self.address.base_url, self.address.timeout)
            time.sleep(attempts.pause(error))

    def events(self, path: str, body: Mapping[str, Any]) -> Generator[ServerEvent]:
        """The events, as sent, of the answer that a POST starts; a broken stream is resumed."""
        return self.resumed(Call("POST", path, json=body))

    def resumed(self, call: Call[Any], answer_id: str | None = None, last: str | None = None) -> Generator[ServerEvent]:
        """The events of an answer; a broken stream is resumed.

        Args:
            call: starts the answer or, if `answer_id` is not None, asks for its events after the event `last`.
        """
        attempts = Attempts(self._retries, call.method)
        return self._follow(Resumption(call, self.address.base_url, attempts, answer_id, last))

    def unresumed(self, path: str, body: Mapping[str, Any]) -> Generator[ServerEvent]:
        """The events of a POST whose stream cannot be resumed."""
        return self._follow(SingleStream(Call("POST", path, json=body), Attempts(self._retries, "POST")))

    def _follow(self, stream: Resumption | SingleStream) -> Generator[ServerEvent]:
        while True:
            error: RagError | None = None
            try:
                with contextlib.closing(self._read(stream.call)) as events:
                    for event in events:
                        if stream.is_new(event):
                            yield event
                        if stream.ended:
                            return
            except httpx.TransportError as failure:
                error = connection_error(failure, self.address.base_url, self.address.timeout)
            except RagError as failure:
                error = failure
            if error is None and stream.ends_when_closed:
                return
            time.sleep(stream.pause(error))

    def _read(self, call: Call[Any]) -> Generator[ServerEvent]:
        with self._http.stream(call.method, call.path, **call.options()) as response:
            if not response.is_success:
                response.read()
                raise problem(response)
            if response.status_code == 204:
                yield ENDED
                return
            for event_sent in EventSource(response).iter_sse():
                if (event := server_event(event_sent)) is not None:
                    yield event


class AsyncConnection:
    """As `Connection`, for asyncio and trio. Belongs to the event loop it is first used in."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = None,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.address = Address.of(base_url, api_key, timeout)
        self._retries = retries or Retries()
        self._http = httpx.AsyncClient(**self.address.client_options(), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """As Connection.send."""
        return call.parse(await self.request(call.method, call.path, **call.options()))

    async def request(self, method: str, path: str, **options: Any) -> Any:
        """As Connection.request."""
        attempts = Attempts(self._retries, method)
        while True:
            try:
                response = await self._http.request(method, path, **options)
                if response.is_success:
                    return parsed(response)
                error: RagError = problem(response)
            except httpx.TransportError as failure:
                error = connection_error(failure, self.address.base_url, self.address.timeout)
            await anyio.sleep(attempts.pause(error))

    def events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[ServerEvent]:
        """As Connection.events."""
        return self.resumed(Call("POST", path, json=body))

    def resumed(
        self, call: Call[Any], answer_id: str | None = None, last: str | None = None
    ) -> AsyncGenerator[ServerEvent]:
        """As Connection.resumed."""
        attempts = Attempts(self._retries, call.method)
        return self._follow(Resumption(call, self.address.base_url, attempts, answer_id, last))

    def unresumed(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[ServerEvent]:
        """As Connection.unresumed."""
        return self._follow(SingleStream(Call("POST", path, json=body), Attempts(self._retries, "POST")))

    async def _follow(self, stream: Resumption | SingleStream) -> AsyncGenerator[ServerEvent]:
        while True:
            error: RagError | None = None
            try:
                async with contextlib.aclosing(self._read(stream.call)) as events:
                    async for event in events:
                        if stream.is_new(event):
                            yield event
                        if stream.ended:
                            return
            except httpx.TransportError as failure:
                error = connection_error(failure, self.address.base_url, self.address.timeout)
            except RagError as failure:
                error = failure
            if error is None and stream.ends_when_closed:
                return
            await anyio.sleep(stream.pause(error))

    async def _read(self, call: Call[Any]) -> AsyncGenerator[ServerEvent]:
        async with self._http.stream(call.method, call.path, **call.options()) as response:
            if not response.is_success:
                await response.aread()
                raise problem(response)
            if response.status_code == 204:
                yield ENDED
                return
            async for event_sent in EventSource(response).aiter_sse():
                if (event := server_event(event_sent)) is not None:
                    yield event
