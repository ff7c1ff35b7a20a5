"""Models loaded for benchmarks and recordings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder.engine import Engine
from decoder.recording.chat import Chat

if TYPE_CHECKING:
    from decoder.dtypes import EngineExact


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model's engine, its chat template, and its name in the results."""

    engine: Engine
    chat: Chat
    name: str


def open_model(
    model: str,
    *,
    dtype: str,
    device: str,
    models_dir: Path | None = None,
    draft_model: str | None = None,
    eagle_head: str | None = None,
    sdsat_adapters: str | None = None,
    exact: EngineExact = "auto",
) -> LoadedModel:
    """Load a model by name, folder or hub id.

    Raises the errors of `load_engine`, and BenchError if the model has no chat template.
    """
    from decoder.load import load_engine
    from decoder.models import default_models_dir, resolve

    chat = Chat.load(resolve(model, models_dir or default_models_dir()))
    engine = load_engine(
        model,
        drafter="plain",
        draft_model=draft_model,
        eagle_head=eagle_head,
        sdsat_adapters=sdsat_adapters,
        dtype=dtype,
        device=device,
        models_dir=models_dir,
        exact=exact,
    )
    if engine.context.recycles:
        engine.context.next_tokens.prepare()  # now, so that no time contains it
    return LoadedModel(engine, chat, Path(model).name)


def open_transformers_model(model: str, *, dtype: str, device: str, models_dir: Path | None = None) -> Any:
    """A causal LM as transformers itself runs it."""
    from transformers import AutoModelForCausalLM

    from decoder.load import DTYPES
    from decoder.models import default_models_dir, resolve

    folder = resolve(model, models_dir or default_models_dir())
    loaded = AutoModelForCausalLM.from_pretrained(
        folder, dtype=DTYPES[dtype], use_safetensors=True, trust_remote_code=False
    )
    return loaded.to(device).eval().requires_grad_(False)
