"""The margin rule of `exact: strict`: a choice that a pass over several rows made narrowly is made again by one row.

A pass over one row and a pass over several run different kernels, whose logits differ in the last bits, so a near-tie
can fall the other way than in plain decoding. Strict answers commit the tokens before a near-tie, and let a one-token
pass, which is plain decoding's own, choose. That lowers flips and no more: keys and values of rows computed together
stay as they are, top-k, top-p and min-p can cut at another token, and passes are shared with other answers.

Knows logits and margins; knows no tree and no cache. The walk asks (`verify.py`), the engine acts on it.
"""

from __future__ import annotations

import numpy as np
import torch

from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import perturbed_scores

THRESHOLDS: dict[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.float32: 1e-3,
    torch.float16: 0.0625,
    torch.bfloat16: 0.5,
}
"""Margins, in logits, below which a choice is a near-tie, by the model's dtype.

Between passes of one row and of nine, the distance of the two best logits of SmolLM2-135M differed by at most 0.5 in
bfloat16, 0.0625 in float16 and 4e-5 in float32 (156 positions, logits around 20). Larger models, and other devices, can
differ more: `bench decode` counts what remains. In float64 nothing ever flipped.
"""


def decide(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> tuple[int, float]:
    """The token that `select` picks, and by how much it beat the second best in what `select` compares.

    Args: as `select`.

    Returns:
        (token id, margin >= 0, infinite where no other token could be picked). Sampling divides logits by the
        temperature, and so the margin is.
    """
    if params.plain_greedy and len(logits) > 1:
        best = logits.topk(2).values.tolist()
        return int(logits.argmax()), best[0] - best[1]
    tokens, scores = perturbed_scores(logits, params, position, history)
    winner = int(np.argmax(scores))
    second = max(scores[:winner].max(initial=-np.inf), scores[winner + 1 :].max(initial=-np.inf))
    return int(tokens[winner]), float(scores[winner] - second)


def select_margin(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> float:
    """The margin of `decide`."""
    return decide(logits, params, position, history)[1]


def is_near_tie(margin: float, params: SamplingParams, threshold: float) -> bool:
    """Whether a margin of `decide`, taken back to logits, is below `threshold`."""
    return margin * (params.temperature or 1.0) < threshold
