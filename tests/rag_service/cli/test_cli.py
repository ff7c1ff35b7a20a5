"""The command line: what it refuses, its exit status, and the settings it shows. No stack is started here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rag_service.access import running
from rag_service.cli.stack import addresses
from rag_service.settings import Settings
from tests.support.command_line import nowhere, rag

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("own_folder")


def test_refusals_are_one_line_and_status_1(api_url: str) -> None:
    for arguments, said in (
        (("ask", "x", "-c", "none"), "no collection 'none'"),
        (("search", "x", "-c", "none"), "no collection 'none'"),
        (("ingest", "missing.txt"), "missing.txt does not exist"),
        (("ingest", "."), "no files"),
    ):
        result = rag(*arguments, "--url", api_url)
        assert result.exit_code == 1, result.output
        assert said in result.stderr
        assert result.stderr.startswith("Error: ")
        assert "Traceback" not in result.output


def test_a_path_that_does_not_exist_may_be_one_beside_it(api_url: str, tmp_path: Path) -> None:
    (tmp_path / "holiday-notes").mkdir()
    result = rag("ingest", str(tmp_path / "holiday-nots"), "--url", api_url)
    assert result.exit_code == 1
    assert "does not exist. Did you mean" in result.stderr
    assert "holiday-notes?" in result.stderr
    assert "Did you mean" not in rag("ingest", str(tmp_path / "else"), "--url", api_url).stderr


def test_wrong_usage_is_status_2_and_names_the_option() -> None:
    for arguments, said in (
        (("ask",), "QUESTION"),
        (("ask", "x", "--max-tokens", "many"), "--max-tokens"),
        (("ask", "x", "--max-tokens", "0"), "--max-tokens"),
        (("ask", "x", "--temperature", "-1"), "--temperature"),
        (("ask", "x", "--speculation", "turbo"), "--speculation': 'turbo' is not a drafter; choose one of off, auto,"),
        (("edit", "a", "x", "--exact", "mostly"), "--exact"),
        (("search", "x", "--mode", "fuzzy"), "--mode"),
        (("search", "x", "--top-k", "0"), "--top-k"),
        (("verify", "x", "--drafter", "turbo"), "--drafter"),
        (("ask", "x", "--url", "ftp://x"), "ftp://x is not an address"),
        (("ask", "x", "--url", "not an address"), "not an address; give one like"),
        (("ask", "x", "--url", "http://["), "http://[ is not an address"),
        (("up", "--port", "70000"), "--port"),
        (("dance",), "dance"),
        (("delete", "x"), "Did you mean `rag collections delete`, `rag docs delete`?"),
    ):
        result = rag(*arguments)
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert "Traceback" not in result.output


def test_values_that_the_service_alone_can_judge_are_status_2(api_url: str) -> None:
    for arguments, said in (
        (("ask", " ", "-c", "animals"), "question is empty"),
        (("ask", "x", "-c", "no/name"), "collection name"),
        (("ask", "x", "-c", "animals", "--temperature", "9"), "temperature"),
        (("ask", "x", "-c", "animals", "--top-k", "99"), "top_k"),
    ):
        result = rag(*arguments, "--url", api_url)
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_nothing_there_is_status_3_and_says_how_to_start() -> None:
    Path("file.txt").write_text("text")
    for arguments in (("ask", "x"), ("ingest", "file.txt"), ("search", "x")):
        result = rag(*arguments, "--url", nowhere())
        assert result.exit_code == 3
        assert "rag up" in result.stderr


def test_up_refuses_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = rag("up", "--port", str(port))
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr


def test_serve_and_worker_need_a_redis() -> None:
    for command in ("serve", "worker"):
        result = rag(command)
        assert result.exit_code == 3
        assert "RAG_REDIS_URL" in result.stderr


def test_a_command_reads_nothing_heavy_before_it_runs() -> None:
    heavy = ("torch", "transformers", "faiss", "celery", "fastapi", "langchain_core", "numpy", "redis", "kombu", "jwt")
    code = f"import sys, rag_service.cli; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_config_shows_values_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", "redis://me:secret@host:1/0")
    monkeypatch.setenv("RAG_STORE_URL", "postgresql://me:secret@host/rag?password=secret")
    shown = rag("config", "show").stdout
    assert "RAG_REDIS_URL=redis://me:***@host:1/0" in shown
    assert "RAG_RETRIEVAL__TOP_K=5" in shown
    assert "secret" not in shown


def test_run_json_of_a_stack_that_is_gone_is_ignored(tmp_path: Path) -> None:
    running.write(tmp_path, running.Running(os.getpid(), "http://127.0.0.1:18099", "redis://b"))
    assert running.read(tmp_path) == running.Running(os.getpid(), "http://127.0.0.1:18099", "redis://b")
    assert addresses.api_url(Settings(data_dir=tmp_path)) == "http://127.0.0.1:18099"
    assert running.run_file(tmp_path).stat().st_mode & 0o077 == 0
    running.write(tmp_path, running.Running(2**22 - 1, "http://127.0.0.1:18099", "redis://b"))
    assert running.read(tmp_path) is None
    running.run_file(tmp_path).write_text("{")
    assert running.read(tmp_path) is None
    assert addresses.api_url(Settings(data_dir=tmp_path, host="0.0.0.0")) == "http://127.0.0.1:8080"
