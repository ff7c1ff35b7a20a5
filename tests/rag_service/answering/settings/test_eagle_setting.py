"""RAG_EAGLE_HEAD on its way from the environment to the engine, and what `rag doctor` says of its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from decoder.drafter_names import DRAFTER_NAMES
from rag_service.cli import app
from rag_service.cli.stack.doctor import _worker_memory
from workers.sessions.queue import Queue, QueueUnavailable
from workers.worker.main import WorkerConfig


def test_the_setting_reaches_the_worker(worker_config: Callable[..., WorkerConfig]) -> None:
    usual = worker_config()
    assert (usual.eagle_head, usual.eagle_allow_pickle) == (None, False)
    config = worker_config(RAG_EAGLE_HEAD="some/folder", RAG_EAGLE_ALLOW_PICKLE="true")
    assert (config.eagle_head, config.eagle_allow_pickle) == ("some/folder", True)
    assert {"eagle", "copyspec+eagle", "casd+eagle"} <= set(DRAFTER_NAMES)


def test_the_worker_hands_it_to_the_engine(engine_options: Callable[..., dict[str, Any]]) -> None:
    options = engine_options(eagle_head="some/folder", eagle_allow_pickle=True)
    assert (options["eagle_head"], options["allow_pickle"]) == ("some/folder", True)


def test_doctor_tells_what_drafting_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [{"name": "a", "memory": {"eagle_head": 93_000_000, "eagle_head_cache_per_token": 1536}}, {"name": "b"}]
    monkeypatch.setattr(Queue, "workers", lambda self: said)
    [finding] = _worker_memory("redis://127.0.0.1:1/0")
    assert finding.found == "a: eagle head 93.0 MB, eagle head cache per token 1.5 kB"

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
