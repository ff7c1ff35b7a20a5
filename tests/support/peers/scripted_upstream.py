"""A model server with OpenAI's API whose answers and faults are a script: deterministic, on loopback, no model."""

from __future__ import annotations

import json
import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

from decoder.sampling.stopping import cut_at_stop
from workers.tokens.text_stream import TextStream
from workers.tokens.tokenizer import Tokens

Say = Callable[[dict[str, Any]], Iterable[str]]
"""Request body -> the pieces of its answer."""


@dataclass(frozen=True)
class Fault:
    """What happens to one request instead of its answer.

    Attributes:
        status: of the response; 200 streams.
        kind: its content type.
        body: sent instead of the answer, as it is.
        cut_after: the connection is closed after so many pieces of the answer; None never.
        headers: more headers.
        hold: the head of the response comes when this is set.
    """

    status: int = 200
    kind: str = "text/event-stream"
    body: bytes | None = None
    cut_after: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None


class ScriptedUpstream:
    """The server.

    Attributes:
        requests: bodies in the order in which they came.
        keys: their Authorization headers.
        faults: what happens to the next requests, one each.
        left: released once for every request that its client closed before the end.
    """

    def __init__(self, say: Say, top: Mapping[str, float] | None = None, usage: dict[str, Any] | None = None) -> None:
        self.say = say
        self.top = top
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.faults: deque[Fault] = deque()
        self.left = threading.Semaphore(0)
        self.arrived = threading.Semaphore(0)
        """Released once for every request that came."""
        self.usage: dict[str, Any] | None = usage
        """Token counts at the end of an answer; None sends none."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedUpstream:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(upstream: ScriptedUpstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Says nothing."""

        def do_GET(self) -> None:
            self._reply(200, "application/json", json.dumps({"object": "list", "data": [{"id": "scripted"}]}).encode())

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            upstream.requests.append(asked)
            upstream.keys.append(self.headers.get("authorization"))
            fault = upstream.faults.popleft() if upstream.faults else Fault()
            upstream.arrived.release()
            try:
                self._answer(asked, fault)
            except (BrokenPipeError, ConnectionResetError):
                upstream.left.release()

        def _answer(self, asked: dict[str, Any], fault: Fault) -> None:
            if fault.hold is not None:
                self._wait(fault.hold)
            if fault.status != 200 or fault.body is not None or fault.kind != "text/event-stream":
                self._reply(fault.status, fault.kind, fault.body or b"", fault.headers)
                return
            if not asked.get("stream"):
                top = [{"token": text, "logprob": odds} for text, odds in (upstream.top or {}).items()]
                measured = {"content": [{"token": "x", "logprob": -1.0, "top_logprobs": top}]} if upstream.top else None
                choice = {"message": {"content": "Yes"}, "finish_reason": "length", "logprobs": measured}
                counts = {} if upstream.usage is None else {"usage": upstream.usage}
                self._reply(200, "application/json", json.dumps({"choices": [choice], **counts}).encode())
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.end_headers()
            self._send({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
            most, finish = asked["max_tokens"], "stop"
            for sent, piece in enumerate(_before(upstream.say(asked), asked.get("stop") or [])):
                if fault.cut_after is not None and sent >= fault.cut_after:
                    return
                if sent >= most:
                    finish = "length"
                    break
                self._send({"choices": [{"index": 0, "delta": {"content": piece}}]})
            if fault.cut_after is not None:
                return
            self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            if upstream.usage is not None:
                self._send({"choices": [], "usage": upstream.usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, chunk: dict[str, Any]) -> None:
            if select.select([self.connection], [], [], 0)[0]:  # a client sends nothing more: it has closed
                raise BrokenPipeError
            self.wfile.write(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")

        def _wait(self, event: threading.Event) -> None:
            while not event.wait(0.02):
                if select.select([self.connection], [], [], 0)[0]:
                    raise BrokenPipeError

        def _reply(self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _before(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces up to a stop string; what may begin one waits."""
    text, sent = "", 0
    for piece in pieces:
        text, stopped = cut_at_stop(text + piece, stops)
        begins = (
            0 if stopped else max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)
        )
        yield text[sent : len(text) - begins]
        sent = max(sent, len(text) - begins)
        if stopped:
            return
    yield text[sent:]


def speaking(tokens: Tokens, script: Callable[[Sequence[int]], list[int]], before_step: Callable[[Any], None]) -> Say:
    """Answers as `FakeEngine` does with the same script: a function of the prompt's ids, some tokens at a time."""

    def say(asked: dict[str, Any]) -> Iterator[str]:
        messages = list(asked["messages"])
        begun = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
        prompt: list[int] = []
        for piece in tokens.template_pieces(messages):
            if isinstance(piece, str):
                prompt += tokens.encode_template(piece)
            else:
                prompt += tokens.encode_content(messages[piece]["content"]).ids
        sequence = SimpleNamespace(prompt=prompt, tokens=[])
        text = TextStream(tokens)
        skipped = 0
        ids = script(prompt)
        if not ids:
            before_step(sequence)
        for token in ids:
            before_step(sequence)
            sequence.tokens.append(token)
            piece = text.push(token)[0]
            fresh = piece[max(0, len(begun) - skipped) :]
            skipped += len(piece)
            yield fresh
        yield text.flush()

    return say


@contextmanager
def scripted(say: Say, top: Mapping[str, float] | None = None) -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(say, top) as upstream:
        yield upstream
