"""The service as an attacker sees it: an address, and perhaps a key. Standard library only."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem document."""
        try:
            problem = self.json
            return str(problem.get("code") or problem.get("error", {}).get("code"))
        except ValueError:
            return ""


class Service:
    """Args: key: the key of an admin or editor, sent unless a request sets its own header."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/")
        self.key = key
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80

    def with_key(self, key: str | None) -> Service:
        return Service(self.url, key)

    def connect(self, timeout: float = 60.0) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Reply:
        """Send one request on a new connection; `value` is sent as JSON. `headers` replace the default ones."""
        sent: dict[str, str] = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        if value is not None:
            body, sent["Content-Type"] = json.dumps(value).encode(), "application/json"
        sent |= headers or {}
        connection = self.connect(timeout)
        try:
            connection.putrequest(method, path, skip_host="Host" in sent)
            for name, text in sent.items():
                connection.putheader(name, text)
            if body is not None and "Transfer-Encoding" not in sent:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            if body is not None:
                # The service may answer before it has read the whole body.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.send(body)
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def collection(self) -> str:
        """Create an empty collection and return its name."""
        name = f"attack-{uuid.uuid4().hex[:12]}"
        expect(self.ask("POST", "/v1/collections", {"name": name}), 201)
        return name

    def add(self, collection: str, documents: list[dict[str, str]]) -> str:
        """Start an ingest of texts and return the job's id."""
        return str(
            expect(self.ask("POST", f"/v1/collections/{collection}/documents", {"documents": documents}), 202).json[
                "job_id"
            ]
        )

    def upload(self, collection: str, files: list[tuple[bytes, bytes]]) -> Reply:
        """Upload files, given as (name, content) in bytes."""
        boundary = uuid.uuid4().hex.encode()
        parts = [
            b'--%s\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n'
            % (boundary, name, data)
            for name, data in files
        ]
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary.decode()}"}
        body = b"".join(parts) + b"--%s--\r\n" % boundary
        return self.ask("POST", f"/v1/collections/{collection}/documents", body=body, headers=headers)

    def ended(self, job_id: str, patience_s: float = 120.0) -> dict[str, Any]:
        """Wait for the end of an ingest job and return it."""

        def look() -> dict[str, Any] | None:
            reply = self.ask("GET", f"/v1/jobs/{job_id}")
            if reply.status != 200:
                return None
            job: dict[str, Any] = reply.json
            return None if job["status"] in ("queued", "running") else job

        ended: dict[str, Any] = until(look, f"the end of job {job_id}", patience_s)
        return ended

    @contextmanager
    def answering(self, within_s: float = 1.0) -> Iterator[None]:
        """Within this context, /healthz must answer every request within `within_s` seconds."""
        slowest, stop = [0.0], threading.Event()

        def watch() -> None:
            while not stop.wait(0.02):
                started = time.monotonic()
                assert self.ask("GET", "/healthz").status == 200
                slowest[0] = max(slowest[0], time.monotonic() - started)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert slowest[0] <= within_s, f"/healthz took {slowest[0]:.1f} s, more than {within_s:g} s"


def expect(reply: Reply, *statuses: int, code: str = "") -> Reply:
    """Raises AssertionError unless the reply has one of these statuses, and this code."""
    assert reply.status in statuses, f"status {reply.status}, not {statuses}: {reply.body[:300]!r}"
    assert not code or reply.code == code, f"code {reply.code!r}, not {code!r}"
    return reply


def until(look: Any, what: str, patience_s: float) -> Any:
    """Call `look` until it returns a true value, and return that. Connection errors are retried."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            if value := look():
                return value
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within {patience_s:g} s")
