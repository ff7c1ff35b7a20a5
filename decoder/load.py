"""`load_engine`: from a model's name, folder or hub id to an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from decoder.engine import Engine
from decoder.target import TargetModel

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def load_engine(
    model: str,
    *,
    drafter: str = "auto",
    dtype: str = "float32",
    device: str = "cpu",
    models_dir: Path | None = None,
) -> Engine:
    """Load a target model and set up an engine with its tokenizer's end tokens and detokenizer.

    Args:
        model: a name from `rag models list`, a folder with config.json and *.safetensors, or a hub id.
        drafter: name of the default drafter.
        dtype: float64, float32, bfloat16 or float16.
        device: "cpu", "cuda", "cuda:1", ...
        models_dir: where named models are kept; the default cache folder where None.

    Raises:
        ValueError: unknown dtype or drafter, or the model cannot be found; the message says what to do.
        UnsupportedModel: its attention cannot take draft trees.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from decoder.models import default_models_dir, resolve

    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    folder = resolve(model, models_dir or default_models_dir())
    weights = AutoModelForCausalLM.from_pretrained(
        folder, dtype=DTYPES[dtype], use_safetensors=True, trust_remote_code=False
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)

    def detokenize(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    return Engine(TargetModel(weights.to(device)), drafter, _end_tokens(weights, tokenizer), detokenize)


def _end_tokens(model: object, tokenizer: object) -> list[int]:
    """The model's own end tokens and its tokenizer's."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = list(configured) if isinstance(configured, (list, tuple)) else [configured]
    ids.append(getattr(tokenizer, "eos_token_id", None))
    return sorted({int(token) for token in ids if token is not None})
