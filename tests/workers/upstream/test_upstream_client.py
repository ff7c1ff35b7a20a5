"""The client of a model server against a scripted one: each fault ends as documented, and no text comes twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.peers.scripted_upstream import Fault, ScriptedUpstream
from workers.broker.messages import Sampling
from workers.errors import RuntimeClosed
from workers.upstream.client import UpstreamClient
from workers.upstream.endpoint import Endpoint
from workers.upstream.errors import (
    UpstreamCut,
    UpstreamError,
    UpstreamPromptTooLong,
    UpstreamRejected,
    UpstreamUnavailable,
)
from workers.upstream.request import ChatRequest, Delta, Usage, body
from workers.upstream.runtime import UpstreamHandle, UpstreamRuntime

PIECES = ["The ", "quick ", "fö", "x ", "jumps 😀", " over", " the", " lazy", " dog", "."]
TEXT = "".join(PIECES)
QUESTION = [{"role": "user", "content": "What does the fox do?"}]


def say(asked: dict[str, Any]) -> Iterator[str]:
    """The rest of the text, after what the request begins the answer with."""
    last = asked["messages"][-1]
    begun = last["content"] if last["role"] == "assistant" else ""
    seen = ""
    for piece in PIECES:
        seen += piece
        if len(seen) > len(begun):
            yield piece[-(len(seen) - len(begun)) :]


@pytest.fixture
def server() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(say) as upstream:
        yield upstream


def request(**sampling: Any) -> ChatRequest:
    return ChatRequest(QUESTION, Sampling(**{"seed": 3, "max_tokens": 50, **sampling}))


def asked(
    upstream: ScriptedUpstream, kind: str = "openai", send: ChatRequest | None = None, **endpoint: Any
) -> tuple[list[Delta], list[float], list[Usage]]:
    """What comes of one request, the waits before it was sent again, and its token counts."""
    waits: list[float] = []
    usage: list[Usage] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def ask() -> list[Delta]:
        client = UpstreamClient(Endpoint("main", upstream.url, "m", server=kind, **endpoint), wait=wait)
        try:
            return [delta async for delta in client.stream(send or request(), usage)]
        finally:
            await client.aclose()

    return asyncio.run(ask()), waits, usage


def text_of(deltas: list[Delta]) -> str:
    assert all(delta.finish_reason is None for delta in deltas[:-1])
    return "".join(delta.text for delta in deltas)


def test_an_answer_comes_as_it_was_sent_with_the_servers_counts(server: ScriptedUpstream) -> None:
    server.usage = {"prompt_tokens": 21, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}
    deltas, waits, usage = asked(server, api_key="secret")
    assert text_of(deltas) == TEXT
    assert deltas[-1].finish_reason == "stop"
    assert (waits, usage) == ([], [Usage(21, 5, 7)])
    assert server.keys == ["Bearer secret"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429, "application/json", b'{"error": {"message": "slow down"}}'),
        Fault(500, "text/plain", b"oops"),
        Fault(503, "text/html", b"<html>starting</html>"),
        Fault(200, "text/html", b"<html>a login page</html>"),
        Fault(200, "application/json", b"{}"),
        Fault(body=b"data: {broken\n\n"),
        Fault(body=b"data: [1]\n\n"),
        Fault(body=b'data: {"error": {"message": "no memory"}}\n\n'),
        Fault(body=b""),
        Fault(body=b"data: [DONE]\n\n"),
        Fault(cut_after=0),
    ],
)
def test_a_request_that_brought_nothing_is_sent_again(server: ScriptedUpstream, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    deltas, waits, _ = asked(server)
    assert text_of(deltas) == TEXT
    assert waits == [0.5, 1.0]
    assert len(server.requests) == 3


def test_a_server_may_say_how_long_to_wait(server: ScriptedUpstream) -> None:
    server.faults.append(Fault(429, "application/json", b"{}", headers={"Retry-After": "7"}))
    assert asked(server)[1] == [7.0]


def test_it_is_given_up_after_the_time_for_tries(server: ScriptedUpstream) -> None:
    server.faults.extend([Fault(503, "text/plain", b"full")] * 50)
    with pytest.raises(UpstreamUnavailable, match="HTTP 503") as caught:
        asked(server, retry_s=10)
    assert caught.value.retry_after is not None
    assert len(server.requests) == 5  # after 0.5, 1, 2 and 4 s; 8 more would be too long
    server.faults.append(Fault(429, "text/plain", b"", headers={"Retry-After": "3600"}))
    server.faults.extend([Fault()] * 60)
    with pytest.raises(UpstreamUnavailable):
        asked(server)


def test_nobody_listens() -> None:
    with ScriptedUpstream(say) as gone:
        pass
    with pytest.raises(UpstreamUnavailable, match="'main' does not answer"):
        asked(gone)


@pytest.mark.parametrize("cut", range(1, 11))
def test_a_stream_that_is_cut_goes_on_where_the_server_can_continue(server: ScriptedUpstream, cut: int) -> None:
    server.faults.append(Fault(cut_after=cut))
    deltas, waits, _ = asked(server, "llama.cpp")
    assert text_of(deltas) == TEXT
    assert waits == []
    assert server.requests[1]["messages"][-1] == {"role": "assistant", "content": "".join(PIECES[:cut])}
    assert server.requests[1]["max_tokens"] == 50 - cut


@pytest.mark.parametrize("cut", range(1, 11))
def test_else_it_ends_as_an_error_and_nothing_comes_twice(server: ScriptedUpstream, cut: int) -> None:
    server.faults.append(Fault(cut_after=cut))
    came: list[str] = []

    async def ask() -> None:
        client = UpstreamClient(Endpoint("main", server.url, "m"))
        try:
            async for delta in client.stream(request()):
                came.append(delta.text)
        finally:
            await client.aclose()

    with pytest.raises(UpstreamCut, match="broke the answer off"):
        asyncio.run(ask())
    assert "".join(came) == "".join(PIECES[:cut])
    assert len(server.requests) == 1


def test_the_counts_of_a_continued_answer_are_not_those_of_its_end(server: ScriptedUpstream) -> None:
    server.usage = {"prompt_tokens": 21, "completion_tokens": 7}
    server.faults.append(Fault(cut_after=3))
    assert asked(server, "llama.cpp")[2] == []


def test_an_error_never_repeats_the_key(server: ScriptedUpstream) -> None:
    server.faults.append(Fault(401, "application/json", b'{"error": {"message": "Incorrect API key: secret"}}'))
    with pytest.raises(UpstreamRejected) as caught:
        asked(server, api_key="secret")
    assert "Incorrect API key: ***" in caught.value.detail


def test_continuing_ends_some_time(server: ScriptedUpstream) -> None:
    server.faults.extend([Fault(cut_after=1)] * 9)
    with pytest.raises(UpstreamCut):
        asked(server, "llama.cpp")


def test_an_answer_with_a_schema_is_not_continued(server: ScriptedUpstream) -> None:
    server.faults.append(Fault(cut_after=2))
    with pytest.raises(UpstreamCut):
        asked(server, "vllm", ChatRequest(QUESTION, Sampling(seed=1), json_schema={"type": "object"}))


@pytest.mark.parametrize(
    ("status", "said", "error", "advice"),
    [
        (401, "bad key", UpstreamRejected, "RAG_UPSTREAM__API_KEY"),
        (404, "no model m", UpstreamRejected, "RAG_UPSTREAM__MODEL"),
        (302, "", UpstreamRejected, "RAG_UPSTREAM__URL"),
        (400, "top_k is unknown", UpstreamRejected, "RAG_UPSTREAM__SERVER"),
        (400, "This model's maximum context length is 8 tokens", UpstreamPromptTooLong, "RAG_UPSTREAM__WINDOW"),
        (400, "the request exceeds the available context size", UpstreamPromptTooLong, "RAG_UPSTREAM__WINDOW"),
    ],
)
def test_a_rejection_says_what_to_do(
    server: ScriptedUpstream, status: int, said: str, error: type[UpstreamError], advice: str
) -> None:
    server.faults.append(Fault(status, "application/json", json.dumps({"error": {"message": said}}).encode()))
    with pytest.raises(error, match=advice) as caught:
        asked(server, api_key="secret")
    assert said in caught.value.detail
    assert "secret" not in caught.value.detail
    assert len(server.requests) == 1


def test_each_server_gets_the_parameters_that_it_takes() -> None:
    send = ChatRequest(
        QUESTION,
        Sampling(seed=2**40 + 5, max_tokens=9, top_k=4, repetition_penalty=1.5, stop=list("abcdef")),
        prediction="so",
        begun="The",
    )

    def of(kind: str) -> dict[str, Any]:
        return body(send, Endpoint("main", "http://x/v1", "m", server=kind))

    assert "top_k" not in of("openai")
    assert of("openai")["prediction"] == {"type": "content", "content": "so"}
    assert of("openai")["stop"] == ["a", "b", "c", "d"]
    assert (of("llama.cpp")["repeat_penalty"], of("llama.cpp")["top_k"]) == (1.5, 4)
    assert of("vllm")["repetition_penalty"] == 1.5
    assert (of("vllm")["continue_final_message"], of("vllm")["add_generation_prompt"]) == (True, False)
    assert "prediction" not in of("vllm")
    assert of("ollama")["messages"][-1] == {"role": "assistant", "content": "The"}
    assert 0 <= of("openai")["seed"] < 2**31


@pytest.fixture
def make_runtime() -> Iterator[Callable[..., UpstreamRuntime]]:
    made: list[UpstreamRuntime] = []

    def make(*urls: str) -> UpstreamRuntime:
        made.append(UpstreamRuntime([Endpoint(f"server-{n}", url, "m") for n, url in enumerate(urls)]))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close(30)


def said(handle: UpstreamHandle) -> str:
    return "".join(delta.text for deltas in handle for delta in deltas)


def test_a_stream_cut_behind_its_last_token_is_not_continued(server: ScriptedUpstream) -> None:
    server.faults.append(Fault(cut_after=3))
    deltas, _, usage = asked(server, send=request(max_tokens=3))
    assert text_of(deltas) == "".join(PIECES[:3])
    assert deltas[-1].finish_reason == "length"
    assert (len(server.requests), usage) == (1, [])


def test_with_few_answers_text_comes_as_the_server_sends_it() -> None:
    handle = UpstreamHandle(lambda: None, lambda: 0.0)
    for delta in (Delta("one "), Delta("two"), Delta("", "stop")):
        handle.put(delta)
    assert list(handle) == [[Delta("one ")], [Delta("two")], [Delta("", "stop")]]


def test_with_many_what_came_meanwhile_comes_as_one_step() -> None:
    handle = UpstreamHandle(lambda: None, lambda: 1e-9)
    handle.put(Delta("one "))
    assert next(handle) == [Delta("one ")]
    for delta in (Delta("two "), Delta("three"), Delta("", "stop")):
        handle.put(delta)
    assert list(handle) == [[Delta("two "), Delta("three"), Delta("", "stop")]]


def test_text_before_a_failure_is_not_lost() -> None:
    handle = UpstreamHandle(lambda: None, lambda: 0.0)
    handle.put(Delta("one "))
    handle.put(UpstreamCut("it ended"))
    assert next(handle) == [Delta("one ")]
    with pytest.raises(UpstreamCut):
        next(handle)
    assert list(handle) == []


def test_an_answers_end_waits_for_no_pace() -> None:
    handle = UpstreamHandle(lambda: None, lambda: 3600.0)
    handle.put(Delta("one "))
    assert next(handle) == [Delta("one ")]
    handle.put(Delta("two", "stop"))
    assert list(handle) == [[Delta("two", "stop")]]


def test_cancelling_closes_the_request_at_once(
    server: ScriptedUpstream, make_runtime: Callable[..., UpstreamRuntime]
) -> None:
    server.faults.append(Fault(hold=threading.Event()))  # never set: the first token does not come
    cancelled = threading.Event()
    handle = make_runtime(server.url).submit(request(), cancelled=cancelled.is_set)
    assert server.arrived.acquire(timeout=30)
    cancelled.set()
    assert list(handle) == [[Delta("", "cancelled")]]
    assert server.left.acquire(timeout=30)


def test_an_answer_is_cancelled_in_the_middle(make_runtime: Callable[..., UpstreamRuntime]) -> None:
    go_on, cancelled = threading.Event(), threading.Event()

    def paused(asked: dict[str, Any]) -> Iterator[str]:
        yield "The "
        assert go_on.wait(30)
        yield "end"

    with ScriptedUpstream(paused) as server:
        handle = make_runtime(server.url).submit(request(), cancelled=cancelled.is_set)
        assert next(handle) == [Delta("The ")]
        cancelled.set()
        assert list(handle) == [[Delta("", "cancelled")]]
        go_on.set()
        assert server.left.acquire(timeout=30)


def test_a_closed_handle_closes_its_request(
    server: ScriptedUpstream, make_runtime: Callable[..., UpstreamRuntime]
) -> None:
    server.faults.append(Fault(hold=threading.Event()))
    handle = make_runtime(server.url).submit(request())
    assert server.arrived.acquire(timeout=30)
    handle.close()
    assert server.left.acquire(timeout=30)


def test_a_closing_runtime_gives_its_answers_back(
    server: ScriptedUpstream, make_runtime: Callable[..., UpstreamRuntime]
) -> None:
    server.faults.append(Fault(hold=threading.Event()))
    runtime = make_runtime(server.url)
    handle = runtime.submit(request())
    assert server.arrived.acquire(timeout=30)
    runtime.close(30)
    with pytest.raises(RuntimeClosed):
        next(handle)
    with pytest.raises(RuntimeClosed):
        runtime.submit(request())


def test_an_upstream_is_chosen_by_name(server: ScriptedUpstream, make_runtime: Callable[..., UpstreamRuntime]) -> None:
    with ScriptedUpstream(lambda asked: ["Other."]) as other:
        runtime = make_runtime(server.url, other.url)
        assert said(runtime.submit(request(), "server-1")) == "Other."
        assert said(runtime.submit(request())) == TEXT
        with pytest.raises(UpstreamUnavailable, match="RAG_UPSTREAM__OTHERS"):
            runtime.submit(request(), "elsewhere")


def test_the_likeliest_first_words_come_where_the_server_gives_them(
    server: ScriptedUpstream, make_runtime: Callable[..., UpstreamRuntime]
) -> None:
    runtime = make_runtime(server.url)
    assert runtime.odds(request(max_tokens=1)) == {}
    server.top = {"Yes": -0.1, " No": -2.5}
    assert runtime.odds(request(max_tokens=1)) == {"Yes": -0.1, " No": -2.5}
