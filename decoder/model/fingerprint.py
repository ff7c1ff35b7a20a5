"""Fingerprints of target models: the config.json of heads and adapters names the model they were trained for."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from decoder.model.target import TargetModel

NONE = "off"
"""Used as the name of a head or adapters: load none, not even the ones that come with the package."""
_ROWS = 64


def describe(target: TargetModel, model: str) -> dict[str, Any]:
    """The target model's entry in the config.json of a head or adapters."""
    return {
        "model": model,
        "hidden_size": target.model.config.hidden_size,
        "vocab_size": target.vocab_size,
        "layers": target.layers,
        "fingerprint": fingerprint(target),
    }


def fingerprint(target: TargetModel) -> str:
    """`weights_fingerprint` of a target's original weights, so that int8 has that of the other number formats."""
    return target.original_fingerprint or weights_fingerprint(target.model)


def weights_fingerprint(model: Any) -> str:
    """A hash of some rows of the embeddings and the last layer, in bfloat16, so that it does not depend on dtype."""
    digest = hashlib.sha256()
    decoder = model.get_decoder()
    last = [weight for _, weight in sorted(decoder.layers[-1].state_dict().items())]
    for weight in (decoder.norm.weight, model.get_input_embeddings().weight, *last):
        rows = weight.detach()[:_ROWS].to("cpu", torch.bfloat16)
        digest.update(rows.contiguous().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]
