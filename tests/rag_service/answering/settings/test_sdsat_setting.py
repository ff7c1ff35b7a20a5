"""RAG_SDSAT_ADAPTERS on its way from the environment to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from decoder.drafter_names import DRAFTER_NAMES
from workers.worker.main import WorkerConfig


def test_the_setting_reaches_the_worker(worker_config: Callable[..., WorkerConfig]) -> None:
    assert worker_config().sdsat_adapters is None
    assert worker_config(RAG_SDSAT_ADAPTERS="some/folder").sdsat_adapters == "some/folder"
    assert {"sdsat", "sdsat_two_step"} <= set(DRAFTER_NAMES)


def test_the_worker_hands_them_to_the_engine(engine_options: Callable[..., dict[str, Any]]) -> None:
    assert engine_options(sdsat_adapters="some/folder")["sdsat_adapters"] == "some/folder"
