"""RAG_EAGLE_HEAD on its way from the environment to the engine, and what `rag doctor` says of its memory."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from decoder.drafter_names import DRAFTER_NAMES
from rag_service.cli import app
from rag_service.cli.stack.doctor import _worker_memory
from workers.sessions.queue import Queue, QueueUnavailable
from workers.worker import main
from workers.worker.main import WorkerConfig


def test_the_setting_reaches_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)
    seen: list[WorkerConfig] = []

    def run(config: WorkerConfig) -> int:
        seen.append(config)
        return 0

    monkeypatch.setattr("workers.worker.main.run_worker", run)
    monkeypatch.setenv("RAG_REDIS_URL", "redis://127.0.0.1:1/0")
    assert CliRunner().invoke(app, ["worker"]).exit_code == 0
    monkeypatch.setenv("RAG_EAGLE_HEAD", "some/folder")
    monkeypatch.setenv("RAG_EAGLE_ALLOW_PICKLE", "true")
    assert CliRunner().invoke(app, ["worker"]).exit_code == 0
    assert [config.eagle_head for config in seen] == [None, "some/folder"]
    assert [config.eagle_allow_pickle for config in seen] == [False, True]
    assert {"eagle", "copyspec+eagle", "casd+eagle"} <= set(DRAFTER_NAMES)


def test_the_worker_hands_it_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded(Exception):
        pass

    def load_engine(model: str, **options: Any) -> None:
        assert (options["eagle_head"], options["allow_pickle"]) == ("some/folder", True)
        raise Loaded

    monkeypatch.setattr("decoder.load_engine", load_engine)
    monkeypatch.setattr("decoder.models.resolve", lambda model, models_dir: tmp_path)
    monkeypatch.setattr(main.Tokens, "load", lambda folder: SimpleNamespace(has_chat_template=False))
    config = WorkerConfig(redis_url="", data_dir=tmp_path, eagle_head="some/folder", eagle_allow_pickle=True)
    with pytest.raises(Loaded):
        main.load(config, "w")


def test_doctor_tells_what_drafting_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [{"name": "a", "memory": {"eagle_head": 93_000_000, "eagle_head_cache_per_token": 1536}}, {"name": "b"}]
    monkeypatch.setattr(Queue, "workers", lambda self: said)
    [finding] = _worker_memory("redis://127.0.0.1:1/0")
    assert finding.found == "a: eagle head 93 MB, eagle head cache per token 0.00154 MB"

    def unreachable(queue: Queue) -> None:
        raise QueueUnavailable("no")

    monkeypatch.setattr(Queue, "workers", unreachable)
    assert list(_worker_memory("redis://127.0.0.1:1/0")) == []
    assert list(_worker_memory(None)) == []


def test_rag_train_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], str]] = []

    def train(arguments: list[str], program: str) -> int:
        seen.append((arguments, program))
        return 2

    monkeypatch.setattr("decoder.training.main", train)
    assert CliRunner().invoke(app, ["train", "eagle", "--model", "m", "--help"]).exit_code == 2
    assert seen == [(["eagle", "--model", "m", "--help"], "rag train")]
