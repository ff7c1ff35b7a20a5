"""RAG_DRAFT_MODEL on its way from the environment to the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decoder.catalogue import DEFAULT_MODEL
from rag_service.cli.stack import up
from rag_service.cli.stack.doctor import check
from rag_service.settings import Settings, load_settings
from workers.worker.main import WorkerConfig

pytestmark = pytest.mark.usefixtures("own_folder")


def test_the_setting_reaches_the_worker(worker_config: Callable[..., WorkerConfig]) -> None:
    assert worker_config().draft_model is None
    assert worker_config(RAG_DRAFT_MODEL="owner/small").draft_model == "owner/small"


def test_the_worker_loads_it(engine_options: Callable[..., dict[str, Any]]) -> None:
    assert engine_options(draft_model="owner/small")["draft_model"] == "owner/small"


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
