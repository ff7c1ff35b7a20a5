"""Fingerprints of target models: what heads and adapters were trained for, as their config.json says it."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from decoder.model.target import TargetModel

NONE = "off"
"""In place of a head's or an adapter's name: none, not even one that comes with the package."""
_ROWS = 64


def describe(target: TargetModel, model: str) -> dict[str, Any]:
    """What a head's config.json says of the model it was trained for."""
    return {
        "model": model,
        "hidden_size": target.model.config.hidden_size,
        "vocab_size": target.vocab_size,
        "layers": target.layers,
        "fingerprint": fingerprint(target),
    }


def fingerprint(target: TargetModel) -> str:
    """Of a model's weights: some rows of the embeddings and of the last layer's matrices, in bfloat16, so that
    one loaded in float32 has the same.
    """
    digest = hashlib.sha256()
    decoder = target.model.get_decoder()
    last = [weight for _, weight in sorted(decoder.layers[-1].named_parameters())]
    for weight in (decoder.norm.weight, target.model.get_input_embeddings().weight, *last):
        rows = weight.detach()[:_ROWS].to("cpu", torch.bfloat16)
        digest.update(rows.contiguous().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]
