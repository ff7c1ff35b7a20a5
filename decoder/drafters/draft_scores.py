"""What `select` would go by, for many rows of draft logits at once and near enough: a drafter may be wrong.

Two models that meet the same noise at the same position choose the same token more often than two independent draws
would (coupling without communication, Daliri et al. 2024). A target chooses argmax(logits + temperature * noise), so a
drafter that adds the same to its own logits ranks tokens by how likely they are to be chosen, and at temperature 0
that is what it does anyway. Penalties count the committed tokens only, and top-p looks at the best few.

Knows logits, parameters and noise; knows no head and no tree.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch

from decoder.sampling import noise
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams

Coupling = Literal["shared", "independent", "none"]
"""Noise of a sampled answer's drafts: the target's own, other noise (as drafters have it that draw for themselves), or
none, so that the likeliest tokens are drafted."""
COUPLINGS = get_args(Coupling)
_ELSEWHERE = 1 << 40
"""Positions from here on belong to no answer."""
_FEW = 256


class CoupledLogits:
    """Adjusts draft logits as `select` would for one step of an answer.

    Args:
        position: absolute position of the first drafted token.
        history: tokens before it.
        ids: int64 [draft vocabulary], the target's ids of draft logits; None where they are the same.
        vocab_size: of the target.
    """

    def __init__(
        self,
        params: SamplingParams,
        position: int,
        history: History,
        ids: torch.Tensor | None,
        vocab_size: int,
        coupling: Coupling = "shared",
    ) -> None:
        self._params = params
        self._position = position + (_ELSEWHERE if coupling == "independent" else 0)
        self._ids = None if ids is None else ids.cpu().numpy()
        self._noisy = coupling != "none" and params.temperature > 0
        self._vocab_size = vocab_size
        self._seen, self._shift = self._penalties(history)

    def __call__(self, logits: torch.Tensor, depth: int) -> torch.Tensor:
        """[rows, draft vocabulary] -> the same shape; `depth` from 1 counts positions."""
        params = self._params
        if self._seen is not None:
            penalised = torch.where(logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty)
            logits = torch.where(self._seen.to(logits.device), penalised, logits)
        if self._shift is not None:
            logits = logits + self._shift.to(logits)
        if not self._noisy:
            return logits
        drawn = noise.uniform(params.seed, params.choice, self._position + depth - 1, self._vocab_size)
        gumbel = torch.from_numpy(noise.gumbel(drawn if self._ids is None else drawn[self._ids]))
        return self._cut(logits) + params.temperature * gumbel.to(logits)

    def _cut(self, logits: torch.Tensor) -> torch.Tensor:
        """-inf for what top-k, top-p and min-p leave out."""
        params, width = self._params, logits.shape[-1]
        floor = torch.full_like(logits[:, :1], float("-inf"))
        if 0 < params.top_k < width:
            floor = logits.topk(params.top_k).values[:, -1:]
        if params.top_p < 1.0:
            weights = ((logits - logits.amax(-1, keepdim=True)) / params.temperature).masked_fill(
                logits < floor, float("-inf")
            )
            chances, few = weights.softmax(-1), min(_FEW, width)
            best, order = chances.topk(few)
            inside = (best.cumsum(-1) - best) < params.top_p
            last = inside.sum(-1, keepdim=True) - 1  # where the few do not reach top_p, nothing is cut behind them
            least = logits.gather(-1, order.gather(-1, last.clamp(min=0)))
            floor = torch.maximum(floor, least) if few == width else torch.where(last < few - 1, least, floor)
        if params.min_p > 0.0:
            floor = torch.maximum(
                floor, logits.amax(-1, keepdim=True) + params.temperature * float(np.log(params.min_p))
            )
        return logits.masked_fill(logits < floor, float("-inf"))

    def _penalties(self, history: History) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """(tokens seen, what is added), over draft ids; None where there is nothing of it."""
        params, seen, shift = self._params, None, None
        if params.repetition_penalty != 1.0:
            there = np.zeros(self._vocab_size, np.bool_)
            there[[token for token in history.seen if token < self._vocab_size]] = True
            seen = torch.from_numpy(there if self._ids is None else there[self._ids])
        if params.presence_penalty or params.frequency_penalty or params.logit_bias:
            added = np.zeros(self._vocab_size)
            for token, count in history.counts.items():
                added[token] -= params.presence_penalty + params.frequency_penalty * count
            for token, bias in params.logit_bias.items():
                added[token] += bias
            shift = torch.from_numpy(added if self._ids is None else added[self._ids])
        return seen, shift
