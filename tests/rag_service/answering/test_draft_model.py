"""RAG_DRAFT_MODEL on its way from the environment to the engine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from decoder.catalogue import DEFAULT_MODEL
from rag_service.cli import app
from rag_service.cli.stack import up
from rag_service.cli.stack.doctor import check
from rag_service.settings import Settings, load_settings
from workers.worker import main
from workers.worker.main import WorkerConfig


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)


def test_the_setting_reaches_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WorkerConfig] = []

    def run(config: WorkerConfig) -> int:
        seen.append(config)
        return 0

    monkeypatch.setattr("workers.worker.main.run_worker", run)
    monkeypatch.setenv("RAG_REDIS_URL", "redis://127.0.0.1:1/0")
    assert CliRunner().invoke(app, ["worker"]).exit_code == 0
    monkeypatch.setenv("RAG_DRAFT_MODEL", "owner/small")
    assert CliRunner().invoke(app, ["worker"]).exit_code == 0
    assert [config.draft_model for config in seen] == [None, "owner/small"]


def test_the_worker_loads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded(Exception):
        pass

    def load_engine(model: str, **options: Any) -> None:
        assert options["draft_model"] == "owner/small"
        raise Loaded

    monkeypatch.setattr("decoder.load_engine", load_engine)
    monkeypatch.setattr("decoder.models.resolve", lambda model, models_dir: tmp_path)
    monkeypatch.setattr(main.Tokens, "load", lambda folder: SimpleNamespace(has_chat_template=False))
    with pytest.raises(Loaded):
        main.load(WorkerConfig(redis_url="", data_dir=tmp_path, draft_model="owner/small"), "w")


def test_what_looks_for_models_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(finding.what == "draft model" for finding in check(load_settings()))
    monkeypatch.setenv("RAG_DRAFT_MODEL", "owner/small")
    [finding] = [finding for finding in check(load_settings()) if finding.what == "draft model"]
    assert not finding.ok
    assert "rag models pull owner/small" in finding.fix


def test_it_is_pulled_before_the_worker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled: list[str] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        pulled.extend(command[command.index("pull") + 1 :])
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("rag_service.cli.stack.up.subprocess.run", run)
    stop: Any = SimpleNamespace(check=lambda: None)
    for draft_model in (None, "owner/small"):
        up._pull(Settings(data_dir=tmp_path, draft_model=draft_model), stop)
    usual = [DEFAULT_MODEL, "all-minilm-l6-v2"]
    assert pulled == [*usual, *usual, "owner/small"]
