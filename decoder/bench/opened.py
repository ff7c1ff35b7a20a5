"""A model opened for a benchmark: its engine, its chat template, and the name that goes into the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from decoder.bench.chat import Chat
from decoder.engine import Engine


@dataclass(frozen=True, slots=True)
class Opened:
    engine: Engine
    chat: Chat
    name: str


def open_model(model: str, *, dtype: str, device: str, models_dir: Path | None = None) -> Opened:
    """Load a model by name, folder or hub id. Errors as `load_engine`, and BenchError without a chat template."""
    from decoder.load import load_engine
    from decoder.models import default_models_dir, resolve

    chat = Chat.load(resolve(model, models_dir or default_models_dir()))
    engine = load_engine(model, drafter="plain", dtype=dtype, device=device, models_dir=models_dir)
    return Opened(engine, chat, Path(model).name)
