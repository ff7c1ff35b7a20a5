"""Models of a known shape with random weights: they take the time of the real ones, and need no download."""

from __future__ import annotations

from typing import Any

import torch

from decoder.recording.prompts import BenchError

SHAPES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "layers": 2, "heads": 4, "kv_heads": 2},
    "smollm2-135m": {"hidden_size": 576, "intermediate_size": 1536, "layers": 30, "heads": 9, "kv_heads": 3},
    "qwen2.5-1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "layers": 28, "heads": 12, "kv_heads": 2},
    "qwen2.5-7b": {"hidden_size": 3584, "intermediate_size": 18944, "layers": 28, "heads": 28, "kv_heads": 4},
    "qwen2.5-14b": {"hidden_size": 5120, "intermediate_size": 13824, "layers": 48, "heads": 40, "kv_heads": 8},
}
"""Sizes by name, those of the models' `config.json`. All have Qwen2.5's architecture and vocabulary."""
VOCABULARY = 151_936
WINDOW = 32_768


def random_model(shape: str, device: str, dtype: torch.dtype, seed: int = 0) -> Any:
    """A stock Qwen2 model with random weights on a device.

    Raises:
        BenchError: there is no such shape.
    """
    from transformers import AutoModelForCausalLM, Qwen2Config

    sizes = SHAPES.get(shape)
    if sizes is None:
        raise BenchError(f"there is no shape {shape!r}; choose of {', '.join(SHAPES)}")
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=sizes["hidden_size"],
        intermediate_size=sizes["intermediate_size"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=WINDOW,
        tie_word_embeddings=sizes["hidden_size"] < 2048,
    )
    torch.manual_seed(seed)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
