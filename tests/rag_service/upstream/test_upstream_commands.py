"""The commands with a model server: `rag doctor` asks it, `rag up` pulls no target model, `rag worker` gets it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rag_service.answering.models import models_of
from rag_service.cli.commands.models.models import _configured
from rag_service.cli.stack import model_servers
from rag_service.settings import Settings
from tests.support.command_line import nowhere, rag
from workers.upstream.endpoint import Endpoint

pytestmark = pytest.mark.usefixtures("own_folder")
KEY = "sk-very-secret"


class ModelServer(BaseHTTPRequestHandler):
    """Answers with what the test sets."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""
    wanted: ClassVar[str | None] = None
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        status = self.status
        if self.wanted is not None and self.headers.get("Authorization") != f"Bearer {self.wanted}":
            status = 401
        self.send_response(status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    ModelServer.status, ModelServer.wanted, ModelServer.asked = 200, None, []
    ModelServer.body = json.dumps({"object": "list", "data": [{"id": "small"}, {"id": "other"}]}).encode()
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelServer) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/v1"
        listening.shutdown()
        thread.join()


def test_doctor_asks_every_model_server(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ModelServer.wanted = KEY
    monkeypatch.setenv("RAG_ENGINE", "openai")
    monkeypatch.setenv("RAG_UPSTREAM__URL", server)
    monkeypatch.setenv("RAG_UPSTREAM__MODEL", "small")
    monkeypatch.setenv("RAG_UPSTREAM__API_KEY", KEY)
    large = {"url": nowhere() + "/v1", "model": "big", "api_key": KEY}
    monkeypatch.setenv("RAG_UPSTREAM__OTHERS", json.dumps({"large": large}))
    monkeypatch.setenv("RAG_URL", nowhere())
    result = rag("doctor", "--json")
    assert KEY not in result.output
    found = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert found["model server default"]["ok"]
    assert found["model server default"]["found"] == f"small at {server} (openai)"
    assert not found["model server large"]["ok"]
    assert "nothing answers at" in found["model server large"]["found"]
    assert "`url` of large in RAG_UPSTREAM__OTHERS" in found["model server large"]["fix"]
    assert ModelServer.asked == ["/v1/models"]
    assert not {"target model", "device", "number format"} & set(found)


@pytest.mark.parametrize(
    ("status", "body", "ok", "found", "fix"),
    [
        (200, None, True, "small at", ""),
        (404, b"<html>", False, "answers with status 404", "RAG_UPSTREAM__URL"),
        (503, b"", False, "answers with status 503", "log"),
        (200, b"<html>no JSON</html>", False, "lists no models", "RAG_UPSTREAM__URL"),
        (200, b'{"data": {"small": 1}}', False, "lists no models", "/v1"),
        (200, b'{"data": []}', True, "lists no model, but not small", "RAG_UPSTREAM__MODEL"),
        (200, b'{"data": [{"id": "a"}, {"id": "b"}]}', True, "lists a, b, but not small", "RAG_UPSTREAM__MODEL"),
        (200, b'"' + b"x" * 5_000_000, False, "lists no models", "RAG_UPSTREAM__URL"),
    ],
)
def test_doctor_says_what_is_wrong_with_a_model_server(
    server: str, status: int, body: bytes | None, ok: bool, found: str, fix: str
) -> None:
    ModelServer.status = status
    ModelServer.body = ModelServer.body if body is None else body
    state = model_servers.state(Endpoint("default", server, "small"))
    assert (state.ok, found in state.found, fix in state.fix) == (ok, True, True), state


@pytest.mark.parametrize(("key", "found"), [(None, "wants a key"), ("sk-wrong", "wants another key")])
def test_doctor_says_that_a_key_is_missing_or_wrong(server: str, key: str | None, found: str) -> None:
    ModelServer.wanted = KEY
    state = model_servers.state(Endpoint("default", server, "small", api_key=key))
    assert not state.ok
    assert found in state.found
    assert "RAG_UPSTREAM__API_KEY" in state.fix
    assert "sk-wrong" not in state.found + state.fix


def test_no_target_model_is_pulled() -> None:
    upstream = {"url": "http://127.0.0.1:1/v1", "model": "big"}
    settings = Settings(engine="openai", upstream=upstream, draft_model="tiny")  # type: ignore[arg-type]
    assert models_of(settings) == ("embedding_model", "reranker")
    assert _configured(settings) == [settings.embedding_model]
    assert _configured(Settings()) == [Settings().model, settings.embedding_model]


def test_a_worker_gets_the_model_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from workers.worker import main

    configs: list[main.WorkerConfig] = []
    monkeypatch.setattr(main, "run_worker", lambda config: configs.append(config) or 0)
    monkeypatch.setenv("RAG_REDIS_URL", "redis://127.0.0.1:1/0")
    assert rag("worker").exit_code == 0
    monkeypatch.setenv("RAG_ENGINE", "openai")
    monkeypatch.setenv("RAG_UPSTREAM__URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("RAG_UPSTREAM__MODEL", "big")
    monkeypatch.setenv("RAG_UPSTREAM__API_KEY", KEY)
    assert rag("worker").exit_code == 0
    assert [config.endpoints for config in configs] == [(), (Endpoint("default", "http://127.0.0.1:1/v1", "big", KEY),)]
    assert KEY not in repr(configs)


def test_starting_without_a_model_server_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ENGINE", "openai")
    for command in (("up",), ("worker",), ("serve",), ("doctor",)):
        result = rag(*command)
        assert result.exit_code == 2
        assert "RAG_UPSTREAM__URL" in result.stderr
