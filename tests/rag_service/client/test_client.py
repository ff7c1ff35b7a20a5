"""The Python client against a scripted transport: retries, resumed streams, errors, the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource

from rag_service.access import local_key, running
from rag_service.client import (
    AnswerFailed,
    AsyncRagClient,
    Conflict,
    Done,
    InvalidRequest,
    NotFound,
    Overloaded,
    Passages,
    RagClient,
    RagConnectionError,
    RagError,
    RagProblem,
    RagTimeout,
    Retries,
    StreamBroken,
    Token,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from rag_service.client.events import server_event
from rag_service.client.transport import DEFAULT_URL, Address
from rag_service.langchain import ChatRagService

ANSWER = {
    "answer_id": "a",
    "session_id": "s",
    "turn": 1,
    "status": "succeeded",
    "question": "What?",
    "collection": None,
    "answer": "one two three",
    "citations": [],
    "passages": [],
    "finish_reason": "stop",
    "seed": 1,
}
EVENTS = [
    ("1-0", "passages", {"answer_id": "a", "session_id": "s", "passages": []}),
    ("2-0", "token", {"text": "one "}),
    ("3-0", "token", {"text": "two ", "source": {"kind": "passage"}}),
    ("10-0", "token", {"text": "three"}),
    ("11-0", "done", ANSWER),
]


def sse(events: list[tuple[str | None, str, Any]]) -> bytes:
    return b"".join(
        (f"id: {id}\n" if id else "").encode() + f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
        for id, name, data in events
    )


def streamed(**body: Any) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, **body)


class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield self._body
        raise httpx.ReadError("gone")

    async def __aiter__(self) -> Any:
        yield self._body
        raise httpx.ReadError("gone")


class Service:
    """Answers as an answer's stream does, and breaks off after as many bytes as it is told, each time."""

    def __init__(self, cuts: list[int]) -> None:
        self.cuts = cuts
        self.asked: list[tuple[str, str, str | None]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        last = request.headers.get("last-event-id")
        self.asked.append((request.method, request.url.path, last))
        after = [0] if last in (None, "0-0") else [int(last.split("-")[0])]
        body = sse([event for event in EVENTS if int(str(event[0]).split("-")[0]) > after[0]])
        if self.cuts:
            return streamed(stream=Cut(body[: self.cuts.pop(0)]))
        return streamed(content=body)


def client(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> RagClient:
    return RagClient("http://rag", transport=httpx.MockTransport(answer), **options)


def async_client(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> AsyncRagClient:
    return AsyncRagClient("http://rag", transport=httpx.MockTransport(answer), **options)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits are noted, not waited."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("rag_service.client.connection.time.sleep", pauses.append)
    monkeypatch.setattr("rag_service.client.connection.anyio.sleep", pause)
    return pauses


WHOLE = len(sse(EVENTS))
FIRST = len(sse(EVENTS[:1]))


@pytest.mark.parametrize("cut", [FIRST, FIRST + 10, WHOLE // 2, *range(WHOLE - 30, WHOLE)])
def test_a_stream_that_breaks_anywhere_loses_and_repeats_nothing(cut: int, paused: list[float]) -> None:
    service = Service([cut, 0, 60])
    with client(service) as rag:
        events = list(rag.stream("What?"))
    assert "".join(event.text for event in events if isinstance(event, Token)) == "one two three"
    assert [type(event) for event in events] == [Passages, Token, Token, Token, Done]
    assert [method for method, _, _ in service.asked] == ["POST", *["GET"] * (len(service.asked) - 1)]
    assert {path for _, path, _ in service.asked[1:]} == {"/v1/answers/a/events"}


@pytest.mark.parametrize("cut", [FIRST, WHOLE // 2, WHOLE - 5])
async def test_an_async_stream_goes_on_where_it_broke_off(cut: int, paused: list[float]) -> None:
    service = Service([cut, 70])
    async with async_client(service) as rag:
        events = [event async for event in rag.stream("What?")]
        assert (await rag.query("What?")).answer == "one two three"
    assert "".join(event.text for event in events if isinstance(event, Token)) == "one two three"
    assert isinstance(events[-1], Done)


def test_events_that_come_twice_are_shown_once(paused: list[float]) -> None:
    bodies = [sse(EVENTS[:3]), sse(EVENTS[1:])]
    with client(lambda _: streamed(content=bodies.pop(0))) as rag:
        assert [event.id for event in rag.stream("What?")] == ["1-0", "2-0", "3-0", "10-0", "11-0"]


def test_an_interruption_said_without_id_is_not_the_end(paused: list[float]) -> None:
    interrupted = (None, "error", {"status": 503, "code": "redis_unavailable", "detail": "Away."})
    bodies = [sse([*EVENTS[:2], interrupted]), sse(EVENTS[2:])]
    with client(lambda _: streamed(content=bodies.pop(0))) as rag:
        assert rag.query("What?").answer == "one two three"


def test_a_stream_that_keeps_breaking_says_where_to_go_on(paused: list[float]) -> None:
    replies = [sse(EVENTS[:2])]
    with client(lambda _: streamed(content=replies.pop(0) if replies else b"")) as rag:
        stream = rag.stream("What?")
        with pytest.raises(StreamBroken, match="not lost") as broken:
            list(stream)
    assert (broken.value.answer_id, broken.value.last_event_id) == ("a", "2-0")
    assert len(paused) == 20
    service = Service([])
    with client(service) as rag:
        assert [event.id for event in rag.resume("a", "2-0")] == ["3-0", "10-0", "11-0"]
    assert service.asked == [("GET", "/v1/answers/a/events", "2-0")]


def test_a_stream_that_breaks_before_the_answer_is_known_is_not_asked_twice(paused: list[float]) -> None:
    service = Service([5, 5])
    with client(service) as rag, pytest.raises(RagConnectionError) as lost:
        list(rag.stream("What?"))
    assert lost.value.sent
    assert len(service.asked) == 1


def test_nothing_follows_an_answer_that_was_seen_whole() -> None:
    with client(lambda _: httpx.Response(204)) as rag:
        assert list(rag.resume("a", "11-0")) == []


def test_an_answer_that_failed_is_an_exception(paused: list[float]) -> None:
    failed = ("5-0", "error", {"status": 503, "code": "out_of_memory", "detail": "Ask for less."})
    with client(lambda _: streamed(content=sse([*EVENTS[:2], failed]))) as rag:
        stream = rag.stream("What?")
        assert [type(next(stream)) for _ in range(2)] == [Passages, Token]
        with pytest.raises(AnswerFailed, match=r"Ask for less\.") as error:
            next(stream)
    assert (error.value.status, error.value.code) == (503, "out_of_memory")
    assert paused == []


@pytest.mark.parametrize("status", [429, 503])
async def test_what_is_refused_as_too_early_is_sent_again_when_the_service_says(
    status: int, paused: list[float]
) -> None:
    def replies() -> list[httpx.Response]:
        refused = httpx.Response(status, headers={"Retry-After": "7"}, json={"detail": "Wait.", "code": "queue_full"})
        return [refused, httpx.Response(status, json={}), streamed(content=sse(EVENTS))]

    left = replies()
    with client(lambda _: left.pop(0)) as rag:
        assert rag.query("What?").answer_id == "a"
    more = replies()
    async with async_client(lambda _: more.pop(0)) as rag:
        assert (await rag.query("What?")).answer_id == "a"
    assert paused == [7, 0.5] * 2


def test_retries_are_counted_and_bounded_in_time(paused: list[float]) -> None:
    asked = []

    def busy(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(429, headers={"Retry-After": "40"}, json={"detail": "Full.", "code": "queue_full"})

    with client(busy) as rag, pytest.raises(Overloaded) as refused:
        rag.search("c", "What?")
    assert (refused.value.code, refused.value.detail, refused.value.retry_after) == ("queue_full", "Full.", 40)
    assert paused == [40, 20]
    assert len(asked) == 3
    asked.clear()
    with client(busy, retries=Retries(0)) as rag, pytest.raises(Overloaded):
        rag.search("c", "What?")
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("error", "method", "sent"),
    [
        (httpx.ConnectError("refused"), "POST", 3),
        (httpx.ConnectTimeout("slow"), "POST", 3),
        (httpx.ReadError("reset"), "POST", 1),
        (httpx.ReadTimeout("slow"), "POST", 1),
        (httpx.ReadError("reset"), "GET", 3),
    ],
)
def test_a_lost_request_is_sent_again_only_where_that_is_safe(
    error: Exception, method: str, sent: int, paused: list[float]
) -> None:
    asked = []

    def lose(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        raise error

    with client(lose) as rag, pytest.raises(RagConnectionError) as lost:
        rag.request(method, "/v1/x")
    assert asked == [method] * sent
    assert lost.value.sent == (not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout))
    assert isinstance(lost.value, RagTimeout) == isinstance(error, httpx.ReadTimeout)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, Unauthorized),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (418, RagProblem),
        (422, InvalidRequest),
        (500, Unavailable),
    ],
)
def test_problems_are_exceptions_of_their_own(status: int, kind: type[RagProblem]) -> None:
    document = {"status": status, "code": "some_code", "detail": "Do this.", "answer_id": "a"}
    with client(lambda _: httpx.Response(status, json=document)) as rag, pytest.raises(RagProblem) as refused:
        rag.collections()
    assert type(refused.value) is kind
    assert (refused.value.status, refused.value.code, str(refused.value)) == (status, "some_code", "Do this.")
    assert refused.value.document == document
    assert isinstance(refused.value, RagError)


def test_without_a_key_the_message_says_how_to_give_one() -> None:
    document = {"status": 401, "code": "key_required", "detail": "This service needs an API key."}
    with client(lambda _: httpx.Response(401, json=document)) as rag, pytest.raises(Unauthorized) as refused:
        rag.collections()
    assert str(refused.value).endswith("API key. In Python, give `api_key` or set RAG_API_KEY.")
    assert refused.value.detail == "This service needs an API key."


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"error": {"message": "Do this.", "code": "some_code"}}'])
def test_bodies_that_are_no_problem_documents_are_read_as_far_as_they_can_be(body: bytes) -> None:
    with client(lambda _: httpx.Response(404, content=body)) as rag, pytest.raises(NotFound) as refused:
        rag.job("j")
    assert str(refused.value) == (
        "Do this."
        if b"error" in body
        else "Another program answers at http://rag (status 404). Start rag-service on another --port, "
        "or name a running service with base_url or RAG_URL."
    )


def test_the_environment_says_where_and_who(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str | None]] = []

    def note(request: httpx.Request) -> httpx.Response:
        seen.append((str(request.url), request.headers.get("authorization")))
        return httpx.Response(200, json={"collections": []})

    monkeypatch.setenv("RAG_URL", "http://there:1/")
    monkeypatch.setenv("RAG_API_KEY", "rag-key")
    for url, key in ((None, None), ("http://here:2", "other"), (None, "")):
        with RagClient(url, key, transport=httpx.MockTransport(note)) as rag:
            assert rag.collections() == []
    assert seen == [
        ("http://there:1/v1/collections", "Bearer rag-key"),
        ("http://here:2/v1/collections", "Bearer other"),
        ("http://there:1/v1/collections", None),
    ]
    with pytest.raises(RagError, match="copy it again"):
        RagClient(api_key="two words")


@pytest.mark.parametrize("kind", [RagClient, AsyncRagClient, ChatRagService])
def test_without_an_address_the_stack_of_the_data_folder_is_used(
    kind: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAG_URL", "RAG_API_KEY", "RAG_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)

    def address(*url: str) -> Address:
        made = kind(**dict(zip(["base_url"], url, strict=False)))
        rag: RagClient | AsyncRagClient = made.client() if kind is ChatRagService else made
        if isinstance(rag, RagClient):
            rag.close()
        return rag.address

    assert address().base_url == DEFAULT_URL
    for folder, port in ((tmp_path / ".rag", 8093), (tmp_path / "other", 8094)):
        key = local_key.ensure(folder)
        running.write(folder, running.Running(os.getpid(), f"http://127.0.0.1:{port}", "redis://b"))
        assert (address().base_url, address().api_key) == (f"http://127.0.0.1:{port}", key)
        monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("RAG_URL", "http://127.0.0.1:1")
    assert (address().base_url, address("http://127.0.0.1:2").base_url) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    monkeypatch.delenv("RAG_URL")
    running.write(tmp_path / "other", running.Running(2**22 - 1, "http://127.0.0.1:8094", "redis://b"))
    assert address().base_url == DEFAULT_URL, "that stack is gone"
    for elsewhere in ("http://192.0.2.1:8094", "https://rag.example", "http://[2001:db8::1]:80", "nowhere"):
        running.write(tmp_path / "other", running.Running(os.getpid(), elsewhere, "redis://b"))
        assert address().base_url == DEFAULT_URL, "a folder may come from anybody, and the key goes to the address"


def test_names_are_written_into_paths_as_they_are() -> None:
    seen: list[bytes] = []

    def note(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path)
        return httpx.Response(404, json={})

    with client(note) as rag:
        for call in (lambda: rag.document("c", "folder/a b?.md"), lambda: rag.collection("../x"), lambda: rag.job("#")):
            with pytest.raises(NotFound):
                call()
    assert seen == [b"/v1/collections/c/documents/folder%2Fa%20b%3F.md", b"/v1/collections/..%2Fx", b"/v1/jobs/%23"]


def test_what_is_no_address_is_said_to_be_none() -> None:
    with RagClient("127.0.0.1:8080") as rag, pytest.raises(RagConnectionError, match="is not an address"):
        rag.collections()


def test_streams_are_read_as_their_standard_has_it() -> None:
    """Lines end at line feeds alone: a line separator within an answer is text. What was cut off is no event."""
    sent = ': hello\n\ndata: [1,\ndata: 2]\n\ndata: "a\u2028b\u0085c"\n\ndata: [DONE]\n\ndata: cut'
    response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=sent.encode())
    events = [event for one in EventSource(response).iter_sse() if (event := server_event(one)) is not None]
    assert [event.data for event in events] == [[1, 2], "a\u2028b\u0085c", "[DONE]"]


def test_the_client_imports_nothing_heavy() -> None:
    code = (
        "import sys, rag_service.client; "
        "print([m for m in ('torch', 'fastapi', 'starlette', 'celery', 'redis', 'langchain_core') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
