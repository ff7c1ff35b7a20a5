"""What the access log says of a request."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from rag_service.cli.stack import access_log


def line(method: str, path: str) -> str | None:
    """As uvicorn writes it; None if it is not kept."""
    arguments = ("127.0.0.1:1", method, path, "1.1", 200)
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 0, '%s - "%s %s HTTP/%s" %d', arguments, None)
    return record.getMessage() if access_log.kept(record) else None


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/collections/c/documents/ann.md-0a1b2c", "/v1/collections/c/documents/-"),
        ("/v1/collections/c/documents/ann%20b.md/original", "/v1/collections/c/documents/-/original"),
        ("/v1/collections/c/documents?after=ann.md", "/v1/collections/c/documents?-"),
        ("/v1/sessions/ann", "/v1/sessions/-"),
        ("/v1/sessions", "/v1/sessions"),
        ("/v1/query", "/v1/query"),
    ],
)
def test_it_names_no_document_and_no_session(path: str, shown: str) -> None:
    assert line("DELETE", path) == f'127.0.0.1:1 - "DELETE {shown} HTTP/1.1" 200'


def test_probes_are_left_out() -> None:
    assert line("GET", "/readyz") is None
    assert line("GET", "/v1/sessions") is not None


def test_the_log_begins_without_the_builds_that_faiss_does_not_have() -> None:
    """It began with `ModuleNotFoundError`, which looked like a fault."""
    code = "from rag_service.cli.stack.serve import _begin_log; _begin_log(); import faiss"
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert started.stderr == ""
