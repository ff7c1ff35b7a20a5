"""Requests and streams over httpx, sent again and taken up again where that is safe. Knows no call of the service."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx
from httpx_sse import EventSource

from rag_service.client.calls import Call
from rag_service.client.errors import RagError, connection_error, parsed, problem
from rag_service.client.events import ENDED, Resumption, ServerEvent, server_event
from rag_service.client.transport import Address, Attempts, Retries, trusted

T = TypeVar("T")


class Connection:
    """A service, over connections that are kept open. A context manager.

    Args:
        base_url: where it is; else RAG_URL, else http://127.0.0.1:8080.
        api_key: else RAG_API_KEY, else to this machine the local key.
        timeout: seconds of silence after which a request is given up.
        retries: when a request is sent again.
        transport: httpx's, for tests.

    Every method raises RagError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = None,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.address = address = Address.of(base_url, api_key, timeout)
        self._retries = retries or Retries()
        self._http = httpx.Client(
            base_url=address.base_url,
            timeout=address.limits,
            headers=address.headers,
            verify=trusted(),
            trust_env=not address.is_loopback,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Any call; refused or lost requests are sent again as `retries` says."""
        return call.parse(self.request(call.method, call.path, **call.options()))

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Any request with httpx's options; the JSON of a successful answer, None if it has no body."""
        attempts = Attempts(self._retries, method)
        while True:
            try:
                response = self._http.request(method, path, **options)
                if response.is_success:
                    return parsed(response)
                error: RagError = problem(response)
            except httpx.TransportError as lost:
                error = connection_error(lost, self.address.base_url, self.address.timeout)
            time.sleep(attempts.pause(error))

    def events(self, path: str, body: Mapping[str, Any]) -> Generator[ServerEvent]:
        """The events, as sent, of an answer that a POST begins; taken up where they broke off."""
        return self.resumed(Call("POST", path, json=body))

    def resumed(self, call: Call[Any], answer_id: str | None = None, last: str | None = None) -> Generator[ServerEvent]:
        """The events of an answer that `call` begins or, where its id is given, takes up behind the event `last`."""
        attempts = Attempts(self._retries, call.method)
        state = Resumption(call, self.address.base_url, attempts, answer_id, last)
        while True:
            error: RagError | None = None
            try:
                with contextlib.closing(self._read(state.call)) as events:
                    for event in events:
                        if state.is_new(event):
                            yield event
                        if state.ended:
                            return
            except httpx.TransportError as lost:
                error = connection_error(lost, self.address.base_url, self.address.timeout)
            except RagError as refused:
                error = refused
            time.sleep(state.pause(error))

    def unresumed(self, path: str, body: Mapping[str, Any]) -> Generator[ServerEvent]:
        """The events of a POST whose stream cannot be taken up again."""
        attempts, begun = Attempts(self._retries, "POST"), False
        while True:
            try:
                with contextlib.closing(self._read(Call("POST", path, json=body))) as events:
                    for event in events:
                        begun = True
                        yield event
                return
            except httpx.TransportError as lost:
                error: RagError = connection_error(lost, self.address.base_url, self.address.timeout)
            except RagError as refused:
                error = refused
            if begun:
                raise error
            time.sleep(attempts.pause(error))

    def _read(self, call: Call[Any]) -> Generator[ServerEvent]:
        with self._http.stream(call.method, call.path, **call.options()) as response:
            if not response.is_success:
                response.read()
                raise problem(response)
            if response.status_code == 204:
                yield ENDED
                return
            for sent in EventSource(response).iter_sse():
                if (event := server_event(sent)) is not None:
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
        self.address = address = Address.of(base_url, api_key, timeout)
        self._retries = retries or Retries()
        self._http = httpx.AsyncClient(
            base_url=address.base_url,
            timeout=address.limits,
            headers=address.headers,
            verify=trusted(),
            trust_env=not address.is_loopback,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            except httpx.TransportError as lost:
                error = connection_error(lost, self.address.base_url, self.address.timeout)
            await anyio.sleep(attempts.pause(error))

    def events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[ServerEvent]:
        """As Connection.events."""
        return self.resumed(Call("POST", path, json=body))

    async def resumed(
        self, call: Call[Any], answer_id: str | None = None, last: str | None = None
    ) -> AsyncGenerator[ServerEvent]:
        """As Connection.resumed."""
        attempts = Attempts(self._retries, call.method)
        state = Resumption(call, self.address.base_url, attempts, answer_id, last)
        while True:
            error: RagError | None = None
            try:
                async with contextlib.aclosing(self._read(state.call)) as events:
                    async for event in events:
                        if state.is_new(event):
                            yield event
                        if state.ended:
                            return
            except httpx.TransportError as lost:
                error = connection_error(lost, self.address.base_url, self.address.timeout)
            except RagError as refused:
                error = refused
            await anyio.sleep(state.pause(error))

    async def unresumed(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[ServerEvent]:
        """As Connection.unresumed."""
        attempts, begun = Attempts(self._retries, "POST"), False
        while True:
            try:
                async with contextlib.aclosing(self._read(Call("POST", path, json=body))) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except httpx.TransportError as lost:
                error: RagError = connection_error(lost, self.address.base_url, self.address.timeout)
            except RagError as refused:
                error = refused
            if begun:
                raise error
            await anyio.sleep(attempts.pause(error))

    async def _read(self, call: Call[Any]) -> AsyncGenerator[ServerEvent]:
        async with self._http.stream(call.method, call.path, **call.options()) as response:
            if not response.is_success:
                await response.aread()
                raise problem(response)
            if response.status_code == 204:
                yield ENDED
                return
            async for sent in EventSource(response).aiter_sse():
                if (event := server_event(sent)) is not None:
                    yield event
