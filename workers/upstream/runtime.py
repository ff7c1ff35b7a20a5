"""The clients of all model servers of a worker, in one thread with an event loop.

Task threads submit requests and iterate over what comes. Knows threads and cancelling; knows no HTTP and no jobs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import httpx

from workers.errors import RuntimeClosed
from workers.upstream.client import UpstreamClient
from workers.upstream.endpoint import Endpoint
from workers.upstream.errors import UpstreamUnavailable
from workers.upstream.request import ChatRequest, Delta, Usage

POLL_S = 0.05
"""Longest time until a cancelled request is closed."""
FEW = 8
"""Up to so many answers at once, text is passed on in the pieces that the server sends."""
STEPS_S = 500
"""Steps a second of all answers together, where there are more. Each costs a write and a wake-up here and in the API,
so text comes in larger pieces then: with 64 answers, every 128 ms."""
T = TypeVar("T")


class UpstreamHandle(Iterator[list[Delta]]):
    """An answer as it comes, one delta or several at a time. The last one has a finish reason.

    Iterating raises UpstreamError, or RuntimeClosed if the runtime closed before the end. `close` closes the request of
    an answer that is not read any more.

    Args:
        pace: shortest time between two steps of the iteration but for the last one, in seconds. Above 0, a step has all
            that arrived since the one before; else one delta.
    """

    def __init__(self, close: Callable[[], None], pace: Callable[[], float]) -> None:
        self._arrived: queue.SimpleQueue[Delta | BaseException] = queue.SimpleQueue()
        self._complete = threading.Event()
        self._close, self._pace = close, pace
        self._failure: BaseException | None = None
        self._ended = False
        self._wait_s = self._next_at = 0.0
        self.usage: Usage | None = None
        """The server's token counts; None if it gave none."""

    def __next__(self) -> list[Delta]:
        if self._ended:
            raise StopIteration
        self._complete.wait(max(0.0, self._next_at - time.monotonic()))
        deltas: list[Delta] = []
        while (
            self._failure is None and not self._ended and not (deltas and (self._arrived.empty() or not self._wait_s))
        ):
            item = self._arrived.get()
            if isinstance(item, BaseException):
                self._failure = item
            else:
                deltas.append(item)
                self._ended = item.finish_reason is not None
        if self._failure is not None and not deltas:
            self._ended = True
            raise self._failure
        self._wait_s = self._pace()
        self._next_at = time.monotonic() + self._wait_s
        return deltas

    def put(self, item: Delta | BaseException) -> None:
        """What comes next: text, or what ends the answer."""
        self._arrived.put(item)
        if isinstance(item, BaseException) or item.finish_reason is not None:
            self._complete.set()

    def close(self) -> None:
        self._close()


class UpstreamRuntime:
    """Asks model servers. Safe to use from several threads.

    Args:
        endpoints: at least one; the first is asked where no name is given.
        transport: of httpx, for tests.
    """

    def __init__(self, endpoints: Sequence[Endpoint], transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._first = endpoints[0].name
        self._transport = transport
        self._clients: dict[str, UpstreamClient] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="upstream", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the runtime accepts and runs answers."""
        return self._thread.is_alive() and not self.closing.is_set()

    @property
    def answers(self) -> int:
        """Number of running requests."""
        return len(self._running)

    def endpoint(self, upstream: str | None) -> Endpoint:
        """Where requests for an upstream go. Raises UpstreamUnavailable if no such upstream is configured."""
        name = upstream or self._first
        if name not in self._endpoints:
            raise UpstreamUnavailable(
                f"no model server is called {name!r} here; the operator names them in RAG_UPSTREAM__OTHERS, the same "
                "for the API and all workers"
            )
        return self._endpoints[name]

    def submit(
        self, request: ChatRequest, upstream: str | None = None, cancelled: Callable[[], bool] = lambda: False
    ) -> UpstreamHandle:
        """Ask for an answer and return its handle. `cancelled` is asked every 50 ms; then the request is closed.

        Raises:
            RuntimeClosed, UpstreamUnavailable: as `endpoint`.
        """
        endpoint = self.endpoint(upstream)
        closed = threading.Event()
        handle = UpstreamHandle(closed.set, lambda: self.answers / STEPS_S if self.answers > FEW else 0.0)

        async def follow() -> None:
            usage: list[Usage] = []
            try:
                async with aclosing(self._client(endpoint).stream(request, usage)) as deltas:
                    async for delta in deltas:
                        if cancelled():
                            raise asyncio.CancelledError
                        if delta.finish_reason is not None and usage:
                            handle.usage = usage[-1]
                        handle.put(delta)
            except asyncio.CancelledError:
                ended = self.closing.is_set() and not cancelled()
                handle.put(RuntimeClosed() if ended else Delta("", "cancelled"))
            except Exception as error:
                handle.put(error)

        followed = self._start(lambda: self._watched(follow, lambda: closed.is_set() or cancelled()))
        # Comes after the answer's last delta, or alone if the runtime closed before the request began.
        followed.add_done_callback(lambda _: handle.put(RuntimeClosed()))
        return handle

    def odds(
        self,
        request: ChatRequest,
        upstream: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        usage: list[Usage] | None = None,
    ) -> dict[str, float]:
        """As `UpstreamClient.odds`; {} if it was cancelled.

        Raises:
            UpstreamError, RuntimeClosed
        """
        endpoint = self.endpoint(upstream)

        async def ask() -> dict[str, float]:
            return await self._client(endpoint).odds(request, usage)

        try:
            return self._start(lambda: self._watched(ask, cancelled)).result() or {}
        except concurrent.futures.CancelledError:
            if self.closing.is_set():
                raise RuntimeClosed from None
            return {}

    def close(self, timeout_s: float | None = None) -> None:
        """Close all requests; their answers get RuntimeClosed. Waits for the thread."""
        with self._lock:
            if not self.closing.is_set():
                self.closing.set()
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)

    def _start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        with self._lock:
            if not self.alive:
                raise RuntimeClosed
            return asyncio.run_coroutine_threadsafe(work(), self._loop)

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, T]], cancelled: Callable[[], bool]) -> T | None:
        """Do some work, and cancel it once `cancelled` holds; None then."""
        task = asyncio.ensure_future(work())
        self._running.add(task)
        try:
            while not task.done():
                if cancelled():
                    task.cancel()
                await asyncio.wait([task], timeout=POLL_S)
            return None if task.cancelled() else task.result()
        finally:
            task.cancel()
            self._running.discard(task)

    def _client(self, endpoint: Endpoint) -> UpstreamClient:
        if endpoint.name not in self._clients:
            self._clients[endpoint.name] = UpstreamClient(endpoint, self._transport)
        return self._clients[endpoint.name]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()

        async def end() -> None:
            await asyncio.gather(*tasks, return_exceptions=True)
            for client in self._clients.values():
                await client.aclose()

        self._loop.run_until_complete(end())
        self._loop.close()
