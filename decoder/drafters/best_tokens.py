"""`best_tokens`: the best of a row of logits, in a tenth of the time of `topk` over a large vocabulary on a CPU.

Knows one row of logits; knows no sequence and no tree.
"""

from __future__ import annotations

import numpy as np
import torch

_BLOCK = 64
"""Tokens of a block, which lie far apart. The k-th best of the blocks' maxima is no better than the k-th best token."""


def best_tokens(logits: torch.Tensor, count: int) -> list[int]:
    """The best `count` tokens of logits [V], or all V, by (logit descending, token id ascending).

    On an accelerator, equal logits come in any order.
    """
    if logits.device.type != "cpu":
        on_device: list[int] = logits.topk(min(count, len(logits))).indices.tolist()
        return on_device
    blocks = len(logits) // _BLOCK
    if blocks <= count:
        best: list[int] = logits.sort(descending=True, stable=True).indices[:count].tolist()
        return best
    rough = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits  # exact
    values = rough.numpy()
    maxima = values[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(0)
    tokens = (values >= np.partition(maxima, blocks - count)[blocks - count]).nonzero()[0]
    order: list[int] = tokens[np.argsort(-values[tokens], kind="stable")[:count]].tolist()
    return order
