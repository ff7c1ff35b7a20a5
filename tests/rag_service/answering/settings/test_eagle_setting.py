"""RAG_EAGLE_HEAD on its way from the environment to the engine, and what `rag doctor` says of its memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from decoder.drafter_names import DRAFTER_NAMES
from decoder.recording.arguments import run_command
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


def test_training_and_benchmarks_are_handed_on_and_take_models_from_where_they_are_pulled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[Any, ...]] = []

    def run(*given: Any) -> int:
        seen.append(given)
        return 2

    monkeypatch.setenv("RAG_MODELS_DIR", str(tmp_path))
    monkeypatch.setattr("decoder.training.main", run)
    monkeypatch.setattr("decoder.bench.main", run)
    assert CliRunner().invoke(app, ["train", "eagle", "--model", "m", "--help"]).exit_code == 2
    assert CliRunner().invoke(app, ["bench", "decode", "--model", "m"]).exit_code == 2
    assert seen[0] == (["eagle", "--model", "m", "--help"], "rag train", tmp_path)
    assert (seen[1][:2], seen[1][-1]) == ((["decode", "--model", "m"], "rag bench"), tmp_path)


def test_the_folder_that_arguments_name_wins(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models-dir", type=Path)
    taken: list[Path] = []
    parser.set_defaults(work=lambda options: taken.append(options.models_dir))
    for arguments in ([], ["--models-dir", "mine"]):
        assert run_command(parser, arguments, "rag bench", "stopped", tmp_path) == 0
    assert taken == [tmp_path, Path("mine")]
