"""The greedy choice: the best token of each row of logits, the first of equal ones.

Knows logits; knows no parameters and no answer.
"""

from __future__ import annotations

import torch

_BLOCKS = (128, 64)
"""Tokens of a block. Most vocabularies are a multiple of one of them."""


def greedy(logits: torch.Tensor) -> torch.Tensor:
    """`argmax` over the vocabulary.

    On a CPU, torch takes 0.25 ms to find the index of the greatest of 152,000 bfloat16 numbers. Maxima without an index
    take it a tenth of that, so the index is looked for in the maxima of blocks, and in the best block.

    Args:
        logits: [R, V], any float dtype and device.

    Returns:
        int64 [R].
    """
    block = next((size for size in _BLOCKS if logits.shape[-1] % size == 0), None)
    if logits.device.type != "cpu" or block is None or not len(logits):
        return logits.argmax(-1)
    parts = logits.view(len(logits), -1, block)
    best = _argmax(parts.amax(-1))
    return block * best + _argmax(parts[torch.arange(len(parts)), best])


def _argmax(values: torch.Tensor) -> torch.Tensor:
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).argmax(-1)
