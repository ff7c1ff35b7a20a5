"""RAG_SDSAT_ADAPTERS on its way from the environment to the engine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from decoder.drafter_names import DRAFTER_NAMES
from rag_service.cli import app
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
    monkeypatch.setenv("RAG_SDSAT_ADAPTERS", "some/folder")
    assert CliRunner().invoke(app, ["worker"]).exit_code == 0
    assert [config.sdsat_adapters for config in seen] == [None, "some/folder"]
    assert {"sdsat", "sdsat_two_step"} <= set(DRAFTER_NAMES)


def test_the_worker_hands_them_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded(Exception):
        pass

    def load_engine(model: str, **options: Any) -> None:
        assert options["sdsat_adapters"] == "some/folder"
        raise Loaded

    monkeypatch.setattr("decoder.load_engine", load_engine)
    monkeypatch.setattr("decoder.models.resolve", lambda model, models_dir: tmp_path)
    monkeypatch.setattr(main.Tokens, "load", lambda folder: SimpleNamespace(has_chat_template=False))
    with pytest.raises(Loaded):
        main.load(WorkerConfig(redis_url="", data_dir=tmp_path, sdsat_adapters="some/folder"), "w")
