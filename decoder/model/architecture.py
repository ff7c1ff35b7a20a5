"""Checks that the decoder can run a model losslessly.

Its attention must take any mask, its rotary embedding must depend only on a row's position, and its passes over trees
must give the stock model's logits. Knows configurations and logits; runs the stock model for a trial.
"""

from __future__ import annotations

from typing import Any

import torch

from decoder.errors import UnsupportedModel

TRIAL_TOKENS = 6
"""Tokens of the trial text."""
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""Largest allowed distance to the stock model's logits, in their spread. Wrong attention is off by about 1."""
_TOLERANCE_16_BIT = 0.3


def check(config: Any) -> None:
    """Check a model's configuration.

    Raises:
        UnsupportedModel: it has sliding windows, mixed attention kinds or soft-capping.
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
    """The number of positions that prompt and answer may use.

    With "longrope", a pass with any row past the original window rotates all of its rows differently
    (`transformers.modeling_rope_utils.longrope_frequency_update`). A token's logits would then depend on the drafts
    after it, so only the original window is used.
    """
    most = int(config.max_position_embeddings)
    parameters = getattr(config, "rope_parameters", None) or {}  # of all layers, or one dict for each kind of layer
    for rope in (parameters, *parameters.values()):
        if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
            most = min(most, int(rope.get("original_max_position_embeddings") or most))
    return most


def trial_text(config: Any) -> list[int]:
    """TRIAL_TOKENS different token ids; fewer if the window or the vocabulary is smaller."""
    count = min(TRIAL_TOKENS, positions(config), config.vocab_size)
    return [number * (config.vocab_size // count) for number in range(count)]


@torch.inference_mode()
def stock_logits(model: Any) -> torch.Tensor:
    """The stock model's logits after each token of the trial text: [n, V]."""
    ids = torch.tensor([trial_text(model.config)], device=model.device)
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0]
    return logits


def compare(ours: torch.Tensor, stock: torch.Tensor, model_type: str) -> None:
    """Compare the logits of passes with the stock model's, both [n, V].

    Raises:
        UnsupportedModel: they differ by more than rounding errors.
    """
    expected = stock.double()
    spread = (expected - expected.mean(-1, keepdim=True)).norm()
    distance = float((ours.double() - expected).norm() / spread)
    if distance > _TOLERANCE.get(stock.dtype, _TOLERANCE_16_BIT):
        raise unsupported(model_type, f"its logits differ from the stock model's by {distance:.2g} of their spread")


def unsupported(model_type: str, reason: object) -> UnsupportedModel:
    """The error for a model that fails the trial."""
    return UnsupportedModel(
        f"{model_type} cannot run over trees of tokens: {reason}; "
        "choose a model with plain full attention, such as Llama, Qwen2, Qwen3 or Mistral"
    )


def head_dim(config: Any) -> int:
    """Columns of a head."""
    named: int | None = getattr(config, "head_dim", None)
    return named or int(config.hidden_size // config.num_attention_heads)
