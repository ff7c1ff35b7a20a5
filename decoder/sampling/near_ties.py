"""Near-ties: `exact="strict"` leaves a narrow choice of a pass over several rows to a pass over one row.

Passes over one row and over several rows run different kernels, whose logits differ in the last bits. So a pass over
several rows can decide a near-tie for another token than plain decoding. A strict answer commits the tokens before the
near-tie and lets a one-token pass, the same as in plain decoding, choose the next. This makes differences rarer but
does not rule them out: keys and values of rows computed together stay as they are, top-k, top-p and min-p can cut at
another token, and passes are shared with other answers.

Knows logits and margins; knows no tree and no cache. `verify.py` detects near-ties, the engine acts on them.
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
"""Margins in logits below which a choice is a near-tie, by the model's dtype.

Between passes over one row and over nine rows, the distance between the two best logits of SmolLM2-135M differed by at
most 0.5 in bfloat16, 0.0625 in float16 and 4e-5 in float32 (156 positions, logits around 20). Larger models and other
devices can differ more; `bench decode` counts the divergences that remain. In float64 no choice ever differed.
"""


def decide(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> tuple[int, float]:
    """The token that `select` picks, and its lead over the second best. Arguments as `select`.

    Returns:
        (token id, margin >= 0). The margin is infinite if no other token could be picked. If the answer is sampled, it
        is in units of logits divided by the temperature.
    """
    if params.plain_greedy and len(logits) > 1:
        best = logits.topk(2).values.tolist()
        return int(logits.argmax()), best[0] - best[1]
    tokens, scores = perturbed_scores(logits, params, position, history)
    winner = int(np.argmax(scores))
    second = max(scores[:winner].max(initial=-np.inf), scores[winner + 1 :].max(initial=-np.inf))
    return int(tokens[winner]), float(scores[winner] - second)


def is_near_tie(margin: float, params: SamplingParams, threshold: float) -> bool:
    """Whether a margin from `decide`, converted to logits, is below `threshold`."""
    return margin * (params.temperature or 1.0) < threshold
