"""Connections that are slow or too many end by themselves; streams and waits are left alone."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from rag_service.api.connections import SPARE, protocol
from rag_service.setting_sections import Limits


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body; `/slow` answers only after far longer than a head or a body may take."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/slow":
        for _ in range(8):
            await send({"type": "http.response.body", "body": b".", "more_body": True})
            await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"done"})


@contextmanager
def serving(**limits: Any) -> Iterator[tuple[str, int]]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=protocol(Limits(**limits)), ws="none", lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    bound.listen(128)
    thread.start()
    yield bound.getsockname()
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


def connect(address: tuple[str, int], sent: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=20)
    connection.sendall(sent)
    return connection


def told(connection: socket.socket) -> bytes:
    """All that comes until the service closes."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD, HEAD + b"\r\n", HEAD + b"\r\nsome"], ids=range(5))
def test_half_a_request_is_given_up(sent: bytes) -> None:
    with serving(head_timeout=0.3, body_timeout=0.3) as address:
        for answer in list(map(told, [connect(address, sent) for _ in range(50)])):
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close" in head.lower()
            assert json.loads(body)["code"] == "request_timeout"


def test_a_slow_answer_is_not_cut() -> None:
    with serving(head_timeout=0.2, body_timeout=0.2) as address:
        answer = told(connect(address, b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"done" in answer


def test_connections_are_bounded_and_probes_pass() -> None:
    request = b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with serving(connections=3) as address:
        held = [connect(address, b"GET") for _ in range(3)]
        refused = told(connect(address, request % b"/x"))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after" in refused.lower()
        assert told(connect(address, request % b"/healthz")).startswith(b"HTTP/1.1 200 ")
        held += [connect(address, b"GET") for _ in range(SPARE)]
        assert told(connect(address, b"")).startswith(b"HTTP/1.1 503 ")
        for connection in held:
            connection.close()
