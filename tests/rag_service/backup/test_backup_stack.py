"""A whole stack saved while it runs, restored into a new folder, and started there: it answers as the old one did."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.backup.archive import verified
from tests.support.command_line import rag_in
from tests.support.stacks.real_stack import PATIENCE_S, ROOT, Stack, started

ASKED = {"question": "What jumps over the dog?", "collection": "default", "max_tokens": 12, "seed": 3}
SEARCHED = {"question": "quick brown fox", "top_k": 3}
COMPARED = ("answer", "passages", "citations", "finish_reason", "support")
"""Of an answer: all that depends on what was asked and on what is kept."""


class Rag:
    """The command line on a data folder, in this process, and the API of the stack that runs on it."""

    def __init__(self, data_dir: Path, models: Path) -> None:
        self._settings = {
            "RAG_DATA_DIR": str(data_dir),
            "RAG_MODELS_DIR": str(models),
            "RAG_MODEL": str(models / "tiny"),
            "RAG_EMBEDDING_MODEL": str(models / "tiny-embedder"),
        }
        self._folder = data_dir.parent

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """In a process of its own, to be killed."""
        given = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
        environment = {**given, "PYTHONPATH": str(ROOT), **self._settings}
        command = [sys.executable, "-m", "rag_service.cli", *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, cwd=self._folder, text=True, **pipes)

    def fails(self, *arguments: str) -> str:
        ended = rag_in(self._folder, self._settings, *arguments)
        assert ended.exit_code == 1, ended.output
        return ended.stderr

    def __call__(self, *arguments: str) -> Any:
        ended = rag_in(self._folder, self._settings, *arguments, "--json")
        assert ended.exit_code == 0, ended.output
        return json.loads(ended.stdout)


@contextlib.contextmanager
def up(models: Path, folder: Path) -> Iterator[tuple[Stack, httpx.Client]]:
    """A ready stack on `folder/data`, and its API with the local key."""
    with started(models, folder) as stack:
        where = stack.until(stack.run_json, "getting ready")
        key = (stack.data_dir / "key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=where["url"], headers=headers, timeout=PATIENCE_S) as api:
            yield stack, api
        stack.process.send_signal(signal.SIGINT)
        assert stack.process.wait(PATIENCE_S) == 0


def ask(api: httpx.Client, **more: Any) -> dict[str, Any]:
    reply = api.post("/v1/query", json={**ASKED, **more})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def kept(api: httpx.Client) -> dict[str, Any]:
    """What the API shows of all that is kept."""
    paths = ("/v1/collections/default", "/v1/collections/default/documents", "/v1/sessions", "/v1/sessions/talk")
    found = {path: api.get(path).raise_for_status().json() for path in paths}
    memory = found["/v1/sessions/talk"]["memory"]
    found["/v1/sessions/talk"]["memory"] = {name: memory[name] for name in ("tokens", "epoch")}  # not Redis's bytes
    found["search"] = api.post("/v1/collections/default/search", json=SEARCHED).raise_for_status().json()
    return found


@pytest.fixture(scope="module")
def saved(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An archive of a running stack, and what that stack said."""
    folder = tmp_path_factory.mktemp("first")
    rag = Rag(folder / "data", tiny_models)
    (folder / "fox.md").write_text("# Foxes\n\nThe quick brown fox jumps over the lazy dog.")
    (folder / "owl.md").write_text("# Owls\n\nAn owl sleeps by day. " * 40)
    with up(tiny_models, folder) as (_, api):
        rag("ingest", "fox.md", "owl.md")
        first = ask(api, session_id="talk")
        key = rag("keys", "create", "ann", "--tenant", "research")["key"]
        told = rag("backup", "rag.tar.gz")
        said = kept(api)
        again = ask(api)
        later = ask(api, session_id="talk", question="And then?")
    return {
        "archive": folder / "rag.tar.gz", "told": told, "said": said, "key": key, "first": first, "again": again,
        "later": later, "data": folder / "data",
    }  # fmt: skip


def test_a_restored_stack_has_everything_and_answers_as_before(
    saved: dict[str, Any], tiny_models: Path, tmp_path: Path
) -> None:
    archive = saved["archive"]
    assert saved["told"]["counts"] == {
        "collections": 1, "documents": 2, "jobs": 1, "sessions": 1, "answers": 1, "unfinished_answers": 0,
        "api_keys": 1, "redis_keys": saved["told"]["counts"]["redis_keys"],
    }  # fmt: skip
    assert archive.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in archive.parent.iterdir() if "rag.tar" in path.name) == ["rag.tar.gz"]
    rag = Rag(tmp_path / "data", tiny_models)
    told = rag("restore", str(archive))
    assert (told["expired"], told["missing_models"]) == (0, [])
    open_to_others = [path for path in (tmp_path / "data").rglob("*") if path.lstat().st_mode & 0o077]
    assert open_to_others == []
    assert not list((tmp_path / "data").glob(".restore-*"))
    with up(tiny_models, tmp_path) as (_, api):
        assert kept(api) == saved["said"]
        answer = api.get(f"/v1/answers/{saved['first']['answer_id']}").raise_for_status().json()
        for one, other in ((answer, saved["first"]), (ask(api), saved["again"])):
            assert {name: one[name] for name in COMPARED} == {name: other[name] for name in COMPARED}
        later = ask(api, session_id="talk", question="And then?")
        assert {name: later[name] for name in COMPARED} == {name: saved["later"][name] for name in COMPARED}
        assert len(api.get("/v1/sessions/talk").json()["turns"]) == 2
        bearer = {"Authorization": f"Bearer {saved['key']}"}
        assert api.get("/v1/collections", headers=bearer).json() == {"collections": []}
        refused = rag.fails("restore", str(archive))
        assert "A restore needs the service stopped" in refused
    assert "is not empty" in rag.fails("restore", str(archive))
    counts = rag("backup", "again.tar.gz")["counts"]  # of a service that is stopped
    assert (counts["answers"], counts["sessions"], counts["api_keys"], counts["documents"]) == (3, 2, 1, 2)


def test_a_restore_says_that_revoked_keys_are_valid_again(
    saved: dict[str, Any], tiny_models: Path, tmp_path: Path
) -> None:
    environment = {"RAG_DATA_DIR": str(tmp_path / "data"), "RAG_MODELS_DIR": str(tiny_models)}
    ended = rag_in(tmp_path, environment, "restore", str(saved["archive"]))
    assert ended.exit_code == 0, ended.output
    place = f"into the data folder {tmp_path / 'data'}."
    assert ended.stderr.startswith(f"Restoring {place}\n")
    assert ended.stdout.endswith(f", {place}\n")
    assert "those revoked since are valid again. Revoke them again: `rag keys list`" in ended.stderr


def test_a_killed_backup_leaves_no_archive(saved: dict[str, Any], tiny_models: Path, tmp_path: Path) -> None:
    rag = Rag(tmp_path / "data", tiny_models)
    rag("restore", str(saved["archive"]))
    collection = tmp_path / "data" / "collections" / "default" / "collection.sqlite3"
    with contextlib.closing(sqlite3.connect(collection, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("UPDATE collection SET generation = generation + 1")
        process = rag.start("backup", "held.tar.gz")
        waiting = tmp_path / "held.tar.gz.partial.d" / "collection.sqlite3"
        while not waiting.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert not (tmp_path / "held.tar.gz").exists()
        holder.execute("ROLLBACK")
    assert rag("backup", "held.tar.gz")["counts"]["documents"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "held.tar.gz"]
    assert verified(tmp_path / "held.tar.gz").counts.documents == 2
    assert "exists already" in rag.fails("backup", "held.tar.gz")
    assert rag("backup", "held.tar.gz", "--force")["counts"]["api_keys"] == 1


def test_a_damaged_archive_changes_nothing(saved: dict[str, Any], tiny_models: Path, tmp_path: Path) -> None:
    whole = saved["archive"].read_bytes()
    rag = Rag(tmp_path / "data", tiny_models)
    flipped = whole[:900] + bytes([whole[900] ^ 0xFF]) + whole[901:]  # never the byte that was there
    for name, data in {"cut": whole[: len(whole) // 2], "flipped": flipped}.items():
        (tmp_path / name).write_bytes(data)
        assert "damaged" in rag.fails("restore", name)
    (tmp_path / "other").write_text("hello")
    assert "no archive" in rag.fails("restore", "other")
    assert "cannot be read" in rag.fails("restore", "missing")
    assert not (tmp_path / "data").exists()
    assert rag("restore", str(saved["archive"]), "--check")["counts"]["documents"] == 2
    assert not (tmp_path / "data").exists()
