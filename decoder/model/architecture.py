"""Which models the decoder runs: attention that takes any mask, rotations that go by a row's position alone, and passes
over a tree of tokens that give what the model gives by itself. Knows configurations and logits; runs the stock model,
before it is set up for passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from decoder.errors import UnsupportedModel

TRIED = 6
"""Tokens of the trial text."""
_FAR = {torch.float64: 1e-6, torch.float32: 1e-2}
_FAR_LOW = 0.3
"""How far a pass may be from the stock model: numerics of a dtype, no more. Wrong attention is off by about 1."""


def check(config: Any) -> None:
    """Refuse what a configuration already shows.

    Raises UnsupportedModel.
    """
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise UnsupportedModel(
            f"{config.model_type} mixes attention kinds ({', '.join(sorted(kinds))}); "
            "choose a model whose layers all use full attention, such as Llama, Qwen2 or Qwen3"
        )
    if getattr(config, "attn_logit_softcapping", None):
        raise UnsupportedModel(
            f"{config.model_type} caps attention logits, which is not supported; choose another model"
        )
    window = getattr(config, "sliding_window", None)
    if window and getattr(config, "use_sliding_window", True) and window < config.max_position_embeddings:
        raise UnsupportedModel(
            f"{config.model_type} attends through a sliding window of {window} tokens, which is not supported; "
            "choose a model with full attention"
        )


def positions(config: Any) -> int:
    """Positions that prompt and answer may take.

    Under "longrope" a pass with any row behind the original window rotates all its rows otherwise
    (`transformers.modeling_rope_utils.longrope_frequency_update`), so what a token is given would go by what is drafted
    behind it: there the original window is all there is.
    """
    most = int(config.max_position_embeddings)
    for rope in _ropes(config):
        original = rope.get("original_max_position_embeddings", most)
        if rope.get("rope_type") == "longrope" and original:
            most = min(most, int(original))
    return most


def _ropes(config: Any) -> Iterator[dict[str, Any]]:
    """Settings of the rotary embedding, of each kind of layer where they differ."""
    own = getattr(config, "rope_parameters", None) or {}
    for rope in (own, *own.values()):
        if isinstance(rope, dict):
            yield rope


def trial_text(config: Any) -> list[int]:
    """TRIED token ids, all different; fewer for a window or vocabulary that is shorter."""
    count = min(TRIED, positions(config), config.vocab_size)
    return [place * (config.vocab_size // count) for place in range(count)]


@torch.inference_mode()
def stock_logits(model: Any) -> torch.Tensor:
    """[n, V]: what the model gives behind each token of the trial text."""
    ids = torch.tensor([trial_text(model.config)], device=model.device)
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0]
    return logits


def compare(ours: torch.Tensor, stock: torch.Tensor, model_type: str) -> None:
    """Raises UnsupportedModel where passes give other logits than the stock model; both [n, V]."""
    wanted = stock.double()
    spread = (wanted - wanted.mean(-1, keepdim=True)).norm()
    off = float((ours.double() - wanted).norm() / spread)
    if off > _FAR.get(stock.dtype, _FAR_LOW):
        raise unsupported(model_type, f"its logits come out otherwise there, by {off:.2g} of their spread")


def unsupported(model_type: str, reason: object) -> UnsupportedModel:
    return UnsupportedModel(
        f"{model_type} does not run in passes over trees of tokens: {reason}; "
        "choose a model with plain full attention, such as Llama, Qwen2, Qwen3 or Mistral"
    )
