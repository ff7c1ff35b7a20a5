"""The HTTP client of one model server.

Knows OpenAI's chat protocol, and what is tried again: everything, while nothing of the answer has come. Knows no jobs
and no events.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from workers.upstream.endpoint import Endpoint
from workers.upstream.errors import (
    UpstreamCut,
    UpstreamError,
    UpstreamPromptTooLong,
    UpstreamRejected,
    UpstreamUnavailable,
)
from workers.upstream.request import ChatRequest, Delta, Usage, body
from workers.upstream.servers import SERVERS

TRIED_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
"""The first wait before a request is sent again, and the longest; each is twice the one before."""
CONTINUED = 3
"""How often an answer that broke off is continued."""
QUOTED = 300
"""Characters of a server's own message that are passed on."""
LONGEST_LINE = 4 * 2**20
"""Characters of one event; a longer one is no answer."""
TOO_LONG = ("context length", "context size", "context_length", "maximum context", "exceeds the available context")
FINISHES = {"stop": "stop", "length": "length", "tool_calls": "stop", "content_filter": "stop", "eos": "stop"}

Wait = Callable[[float], Awaitable[None]]


class UpstreamClient:
    """Asks one model server. Use it in one event loop.

    Args:
        transport: of httpx, for tests.
        wait: waits some seconds before a request is sent again.
    """

    def __init__(
        self, endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None = None, wait: Wait = asyncio.sleep
    ) -> None:
        self.endpoint = endpoint
        self._wait = wait
        headers = {} if endpoint.api_key is None else {"Authorization": f"Bearer {endpoint.api_key}"}
        self._http = httpx.AsyncClient(
            transport=transport,
            headers=headers,
            timeout=httpx.Timeout(endpoint.silence_s, connect=10.0, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def stream(self, request: ChatRequest, usage: list[Usage] | None = None) -> AsyncGenerator[Delta]:
        """The answer as it comes; the last delta has a finish reason.

        Args:
            usage: gets the server's token counts, the last of them of the whole answer; nothing if it gives none, or
                counted only a part of an answer that broke off.

        Raises:
            UpstreamError
        """
        tries = _Tries(self.endpoint, self._wait)
        counts = [] if usage is None else usage
        continued = 0
        while True:
            came, pieces = "", 0
            try:
                async with aclosing(self._once(request, counts)) as deltas:
                    async for delta in deltas:
                        came, pieces = came + delta.text, pieces + 1
                        yield delta
                return
            except _Broken as broken:
                if not came:
                    await tries.again(broken)
                    continue
                if pieces >= request.sampling.max_tokens:  # all of it came, but for the reason of its end
                    yield Delta("", "length")
                    return
                if not (SERVERS[self.endpoint.server].continues and request.continuable) or continued == CONTINUED:
                    raise UpstreamCut(
                        f"{self._who} broke the answer off ({broken.detail}), and it cannot be continued. Ask again."
                    ) from broken
                continued += 1
                request = request.continuing(came, pieces)
                counts = []
                tries = _Tries(self.endpoint, self._wait)

    async def odds(self, request: ChatRequest, usage: list[Usage] | None = None) -> dict[str, float]:
        """Likeliest texts of the answer's first token -> natural logarithm of each one's probability; {} if the server
        gives none.

        Args:
            usage: gets the server's token counts, if it gives some.

        Raises:
            UpstreamError
        """
        tries = _Tries(self.endpoint, self._wait)
        while True:
            try:
                async with self._answer(body(request, self.endpoint, stream=False), "application/json") as response:
                    try:
                        reply = json.loads(await response.aread())
                        measured = ((reply["choices"][0].get("logprobs") or {}).get("content") or [{}])[0]
                        top = measured.get("top_logprobs") or []
                        odds = {str(one["token"]): float(one["logprob"]) for one in top}
                        if usage is not None and (counts := reply.get("usage")) is not None:
                            usage.append(_usage(counts))
                        return odds
                    except (ValueError, LookupError, TypeError, AttributeError) as error:
                        raise _Broken("it answers with something else than a chat completion") from error
            except _Broken as broken:
                await tries.again(broken)

    async def _once(self, request: ChatRequest, usage: list[Usage]) -> AsyncGenerator[Delta]:
        """One request. Raises `_Broken` where it could be sent again."""
        finish: str | None = None
        async with self._answer(body(request, self.endpoint), "text/event-stream") as response:
            lines = response.aiter_lines()
            wait_s = self.endpoint.first_token_s
            while True:
                try:
                    async with asyncio.timeout(wait_s):
                        line = await anext(lines)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    if finish is not None:
                        break
                    raise _Broken(f"nothing came for {wait_s:g} s") from None
                except (httpx.HTTPError, httpx.StreamError) as error:
                    if finish is not None:  # the answer is whole; only what follows it is lost
                        break
                    raise _Broken(_reason(error)) from error
                if len(line) > LONGEST_LINE:
                    raise _Broken("an event of it is too large")
                if not line.startswith("data:"):
                    continue
                data = line[5:].strip()
                if data == "[DONE]":
                    break
                chunk = _chunk(data)
                if (counts := chunk.get("usage")) is not None:
                    usage.append(_usage(counts))
                for choice in chunk.get("choices") or []:
                    text = (choice.get("delta") or {}).get("content") or ""
                    finish = choice.get("finish_reason") or finish
                    if text:
                        wait_s = self.endpoint.silence_s
                        yield Delta(str(text))
        if finish is None:
            raise _Broken("it ended without a reason")
        yield Delta("", FINISHES.get(finish, "stop"))  # type: ignore[arg-type]

    @asynccontextmanager
    async def _answer(self, sent: Mapping[str, Any], kind: str) -> AsyncIterator[httpx.Response]:
        """The response of an accepted request. Raises UpstreamError, and `_Broken` where another try may help."""
        url = f"{self.endpoint.url.rstrip('/')}/chat/completions"
        timeout = httpx.Timeout(self.endpoint.first_token_s, connect=10.0, pool=None)
        sending = self._http.build_request("POST", url, json=sent, headers={"Accept": kind}, timeout=timeout)
        try:
            response = await self._http.send(sending, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _Broken(_reason(error)) from error
        try:
            if response.status_code in TRIED_AGAIN:
                raise _Broken(await self._message(response), _retry_after(response))
            if response.status_code >= 300:
                raise await self._rejection(response)
            got = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if got != kind:
                raise _Broken(f"it answers with {got or 'no content type'} instead of {kind}")
            yield response
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _Broken(_reason(error)) from error
        finally:
            await response.aclose()

    async def _rejection(self, response: httpx.Response) -> UpstreamError:
        message = await self._message(response)
        if response.status_code in (401, 403):
            advice = "Set RAG_UPSTREAM__API_KEY to a key that it accepts."
        elif response.status_code in (301, 302, 303, 307, 308, 404, 405):
            advice = "Set RAG_UPSTREAM__URL to its address with /v1, and RAG_UPSTREAM__MODEL to a model that it has."
        elif any(words in message.lower() for words in TOO_LONG):
            return UpstreamPromptTooLong(
                f"The prompt and the answer do not fit the window of {self._who}: {message} Ask for fewer passages or "
                "less text, or set RAG_UPSTREAM__WINDOW to what the server has."
            )
        else:
            advice = "RAG_UPSTREAM__SERVER says which parameters it takes."
        return UpstreamRejected(f"{self._who} rejects the request: {message} {advice}")

    async def _message(self, response: httpx.Response) -> str:
        """What a server says of an error: its own message, without our key, and its status."""
        text = ""
        async for piece in response.aiter_text():
            text += piece
            if len(text) > 16 * QUOTED:
                break
        status = f"HTTP {response.status_code}"
        try:
            said = _quoted(json.loads(text))
        except ValueError:
            return f"{status}."
        key = self.endpoint.api_key
        return f"{said.replace(key, '***') if key else said} ({status})."

    @property
    def _who(self) -> str:
        return f"the model server {self.endpoint.name!r}"


class _Broken(Exception):
    """A request that brought no whole answer, and may be sent again."""

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after


class _Tries:
    """Waits between requests that brought nothing, up to the endpoint's `retry_s` seconds in all."""

    def __init__(self, endpoint: Endpoint, wait: Wait) -> None:
        self._endpoint, self._waiting = endpoint, wait
        self._next_s, self._waited_s = FIRST_WAIT_S, 0.0
        self._started = time.monotonic()

    async def again(self, broken: _Broken) -> None:
        """Wait for the next try. Raises UpstreamUnavailable if there is none."""
        wait_s = self._next_s if broken.retry_after is None else broken.retry_after
        spent = max(self._waited_s, time.monotonic() - self._started)
        if spent + wait_s > self._endpoint.retry_s:
            raise UpstreamUnavailable(
                f"the model server {self._endpoint.name!r} does not answer: {broken.detail}. Ask again later; the "
                "operator finds it with `rag doctor`.",
                broken.retry_after or LONGEST_WAIT_S,
            ) from broken
        self._waited_s += wait_s
        self._next_s = min(2 * self._next_s, LONGEST_WAIT_S)
        await self._waiting(wait_s)


def _chunk(data: str) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except ValueError:
        raise _Broken("an event of it is no JSON") from None
    if not isinstance(chunk, dict):
        raise _Broken("an event of it is no object")
    if "error" in chunk:
        raise _Broken(f"it says: {_quoted(chunk)}")
    return chunk


def _usage(counts: Mapping[str, Any]) -> Usage:
    details = counts.get("prompt_tokens_details") or {}
    numbers = (counts.get("prompt_tokens"), details.get("cached_tokens"), counts.get("completion_tokens"))
    told = counts.get("completion_tokens_details") or {}
    predicted = (told.get(f"{fate}_prediction_tokens") for fate in ("accepted", "rejected"))
    return Usage(
        *(int(number or 0) for number in numbers), *(None if number is None else int(number) for number in predicted)
    )


def _quoted(document: Any) -> str:
    error = document.get("error", document) if isinstance(document, dict) else document
    text = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(text).split())[:QUOTED]


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:QUOTED] or type(error).__name__
