"""The way of a setting: from the environment to the worker, and from there to the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command_line import rag
from workers.worker import main
from workers.worker.main import WorkerConfig


@pytest.fixture
def worker_config(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WorkerConfig]:
    """`worker_config(RAG_MODEL="…")` is what `rag worker` would start with; no other settings are in its way."""

    def config(**settings: str) -> WorkerConfig:
        seen: list[WorkerConfig] = []

        def run(config: WorkerConfig) -> int:
            seen.append(config)
            return 0

        with monkeypatch.context() as patch:
            patch.setattr(main, "run_worker", run)
            for name, value in {"RAG_REDIS_URL": "redis://127.0.0.1:1/0", **settings}.items():
                patch.setenv(name, value)
            assert rag("worker").exit_code == 0
        (started,) = seen
        return started

    return config


@pytest.fixture
def engine_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """`engine_options(draft_model="…")` are the options with which a worker of that configuration loads its engine."""

    class Loaded(Exception):
        pass

    def options_of(**config: Any) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def load_engine(model: str, **options: Any) -> None:
            seen.update(options)
            raise Loaded

        monkeypatch.setattr("decoder.load_engine", load_engine)
        monkeypatch.setattr("decoder.models.resolve", lambda model, models_dir: tmp_path)
        monkeypatch.setattr(main.Tokens, "load", lambda folder: SimpleNamespace(has_chat_template=False))
        with pytest.raises(Loaded):
            main.load(WorkerConfig(redis_url="", data_dir=tmp_path, **config), "w")
        return seen

    return options_of
