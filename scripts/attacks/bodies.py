"""Bodies and connections that could keep the service busy."""

from __future__ import annotations

import socket
import time

from service import Service, expect

HALF_SENT = 200
HEAD_S = 30.0
"""Seconds after which the service must have closed a request whose head never ends."""


def large_bodies(service: Service) -> None:
    """14 MB of JSON are rejected, and the service answers other requests meanwhile."""
    body = b'{"question": "x", "stop": [' + b",".join([b"1"] * 7_000_000) + b"]}"
    with service.answering():
        for _ in range(3):
            headers = {"Content-Type": "application/json"}
            expect(service.ask("POST", "/v1/query", body=body, headers=headers), 413)


def bodies_just_allowed(service: Service) -> None:
    """2 MB of hostile JSON are rejected, and the service answers other requests meanwhile."""
    size = 1_900_000
    hostile = [
        b'{"question": "x", "stop": [' + b",".join([b"1"] * (size // 2)) + b"]}",
        b'{"question": "x", "logit_bias": {' + b",".join(b'"%d":1' % n for n in range(size // 12)) + b"}}",
        b'{"question": ' + b"[" * size + b"}",
        b'{"question": "x", "seed": ' + b"9" * size + b"}",
        b'{"question": "' + b"\\u0041" * (size // 6) + b'"}',
        b"{" + b",".join(b'"k%d":[]' % n for n in range(size // 12)) + b"}",
        b'{"question": "x", "retrieval": {"filter": {"a": [' + b",".join([b"{}"] * (size // 3)) + b"]}}}",
    ]
    with service.answering():
        for body in hostile:
            reply = service.ask("POST", "/v1/query", body=body, headers={"Content-Type": "application/json"})
            assert 400 <= reply.status < 500, f"{body[:40]!r}…: {reply.status}"
            assert len(reply.body) < 20_000, "the error repeats the request body"


def a_false_upload(service: Service) -> None:
    """A body declared as multipart has the same limit on endpoints without uploads."""
    body = b"x" * 20_000_000
    for kind in ("multipart/x", "multipart/form-data; boundary=x"):
        reply = service.ask("POST", "/v1/query", body=body, headers={"Content-Type": kind})
        expect(reply, 413, 415)


def half_sent_requests(service: Service) -> None:
    """Requests whose head never ends are closed, and the service answers other requests meanwhile."""
    connections = []
    try:
        for _ in range(HALF_SENT):
            half = socket.create_connection((service.host, service.port), timeout=HEAD_S)
            half.sendall(b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            connections.append(half)
        with service.answering(2.0):
            deadline = time.monotonic() + HEAD_S
            for half in connections:
                half.settimeout(max(0.1, deadline - time.monotonic()))
                while half.recv(1024):
                    pass
    finally:
        for half in connections:
            half.close()


OVER_HTTP = [large_bodies, bodies_just_allowed, a_false_upload, half_sent_requests]
