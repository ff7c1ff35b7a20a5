"""A client of the HTTP API that needs only the standard library. Copy it into your own project.

rag = Rag("http://127.0.0.1:8080")                        # with the local key, or api_key="rag_…"
rag.upload("handbook", ["travel-policy.md", "warranty.pdf"])
print(rag.ask("How much is the hotel limit?", collection="handbook")["answer"])
"""

from __future__ import annotations

import json
import mimetypes
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any


class RagProblem(Exception):
    """The service answered with an error. `code` is stable; the text says what to do."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail} (HTTP {status}, {code})")
        self.status = status
        self.code = code


class Rag:
    """The service at `url`. `timeout` is in seconds, for one read from the connection.

    The key is `api_key`, or else RAG_API_KEY. For a service on this machine, the default is the file `key` in
    RAG_DATA_DIR (.rag by default).
    """

    def __init__(self, url: str, timeout: float = 600.0, api_key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self.api_key = api_key or os.environ.get("RAG_API_KEY")
        here = urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
        file = Path(os.environ.get("RAG_DATA_DIR", ".rag"), "key")
        if here and self.api_key is None and os.access(file, os.R_OK):
            self.api_key = file.read_text().strip()
        proxies = [urllib.request.ProxyHandler({})] if here else []  # do not send the local key to a proxy
        self._opener = urllib.request.build_opener(*proxies)

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask, and return the whole answer. Options are those of POST /v1/query: collection, session_id, seed, …"""
        answer: dict[str, Any] = self.call("POST", "/v1/query", {"question": question, **options})
        return answer

    def stream(self, question: str, **options: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield events as they arrive: ("passages" | "token" | "done" | "error", data)."""
        body = json.dumps({"question": question, "stream": True, **options}).encode()
        with self._open("POST", "/v1/query", body, "application/json") as response:
            name = ""
            for raw in response:
                field, _, value = raw.decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)

    def create(self, collection: str) -> None:
        """Create a collection if it does not exist."""
        try:
            self.call("POST", "/v1/collections", {"name": collection})
        except RagProblem as problem:
            if problem.status != 409:
                raise

    def upload(
        self,
        collection: str,
        paths: Iterable[str | Path],
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Ingest files, wait, and return the finished job with its `failures`. It calls `progress(done, total)`."""
        self.create(collection)
        boundary = uuid.uuid4().hex
        parts = []
        for path in map(Path, paths):
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{path.name}"\r\n'
            parts.append(f"{head}Content-Type: {kind}\r\n\r\n".encode() + path.read_bytes() + b"\r\n")
        body = b"".join(parts) + f"--{boundary}--\r\n".encode()
        where = f"/v1/collections/{collection}/documents"
        with self._open("POST", where, body, f"multipart/form-data; boundary={boundary}") as response:
            job_id = json.load(response)["job_id"]
        while True:
            job: dict[str, Any] = self.call("GET", f"/v1/jobs/{job_id}")
            if progress:
                progress(job["done"], job["total"])
            if job["status"] in {"succeeded", "failed", "cancelled"}:
                return job
            time.sleep(0.2)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send any call, with JSON in and out."""
        data = None if body is None else json.dumps(body).encode()
        with self._open(method, path, data, "application/json") as response:
            text = response.read()
        return json.loads(text) if text else None

    def _open(self, method: str, path: str, data: bytes | None, kind: str) -> HTTPResponse:
        headers = {"Content-Type": kind} if data is not None else {}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            response: HTTPResponse = self._opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                problem = json.loads(text)
                raise RagProblem(error.code, problem["code"], problem["detail"]) from None
            except (ValueError, KeyError):
                raise RagProblem(error.code, "unknown", text[:500] or str(error.reason)) from None
        return response
