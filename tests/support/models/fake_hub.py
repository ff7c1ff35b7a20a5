"""A model hub on loopback that has one file."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from huggingface_hub import constants

COMMIT = "1234567890abcdef1234567890abcdef12345678"


class FakeHub:
    """What the hub has, how it behaves, and what was asked of it.

    Attributes:
        content: the bytes of its file.
        etag: the SHA-256 that it says the file has.
        cut: bytes after which it breaks off a download that asks for all; None for never.
        silent: whether it never answers.
        stuck: whether it sends nothing after the head of a download.
        requests: method and Range header of each request.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag = hashlib.sha256(content).hexdigest()
        self.cut: int | None = None
        self.silent = False
        self.stuck = False
        self.requests: list[tuple[str, str | None]] = []
        self.let_go = threading.Event()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(b"")

        def do_GET(self) -> None:
            self._answer(hub.content)

        def _answer(self, body: bytes) -> None:
            if self.path.startswith("/api/"):  # which the library asks for once a process, of its own accord
                self.send_error(404)
                return
            wanted = self.headers.get("Range")
            hub.requests.append((self.command, wanted))
            if hub.silent:
                hub.let_go.wait(60)
                return
            start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
            self.send_response(206 if wanted else 200)
            self.send_header("ETag", f'"{hub.etag}"')
            self.send_header("X-Linked-Etag", f'"{hub.etag}"')
            self.send_header("X-Linked-Size", str(len(hub.content)))
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(hub.content) - start))
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
            self.end_headers()
            if hub.stuck and body:
                self.wfile.flush()
                hub.let_go.wait(60)
                return
            self.wfile.write(body[start : None if wanted else hub.cut])

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def fake_hub(content: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Let huggingface_hub ask a hub on loopback that has this content."""
    hub = FakeHub(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    try:
        yield hub
    finally:
        hub.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()
