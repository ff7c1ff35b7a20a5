"""NoisyDraftLogits: draft logits adjusted like the target's in `select`, approximately and for many rows at once.

Two models that use the same noise at the same position choose the same token more often than with independent noise
(coupling without communication, Daliri et al. 2024). The target chooses argmax(logits + temperature * noise). So a
drafter that adds the same noise to its own logits ranks tokens by how likely the target is to choose them. It is an
approximation: penalties count committed tokens only, and top-p reads a few of the best tokens.

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
"""The noise in a sampled answer's drafts: "shared" is the target's, "independent" is other noise, as in independent
sampling, and "none" drafts the likeliest tokens."""
COUPLINGS = get_args(Coupling)
_INDEPENDENT_OFFSET = 1 << 40
"""Added to positions for independent noise; no answer has such positions."""
_TOP_P_CANDIDATES = 256
"""The number of best tokens that top-p reads."""


class NoisyDraftLogits:
    """Adjusts draft logits like `select`, for one step of an answer.

    Args:
        params: the answer's sampling parameters.
        position: absolute position of the first drafted token.
        history: tokens before it.
        ids: int64 [draft vocabulary], the target's token id of each draft logit; None if they are the same.
        vocab_size: the target's vocabulary size.
        coupling: the noise, see `Coupling`.
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
        self._position = position + (_INDEPENDENT_OFFSET if coupling == "independent" else 0)
        self._ids = None if ids is None else ids.cpu().numpy()
        self._noisy = coupling != "none" and params.temperature > 0
        self._vocab_size = vocab_size
        self._seen, self._shift = self._penalties(history)

    def __call__(self, logits: torch.Tensor, depth: int) -> torch.Tensor:
        """Adjust logits [rows, draft vocabulary] of tokens at a depth, from 1 on; the result has the same shape."""
        params = self._params
        if self._seen is not None:
            penalised = torch.where(logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty)
            logits = torch.where(self._seen.to(logits.device), penalised, logits)
        if self._shift is not None:
            logits = logits + self._shift.to(logits)
        if not self._noisy:
            return logits
        uniforms = noise.uniform(params.seed, params.choice, self._position + depth - 1, self._vocab_size)
        gumbel = torch.from_numpy(noise.gumbel(uniforms if self._ids is None else uniforms[self._ids]))
        return self._cut(logits) + params.temperature * gumbel.to(logits)

    def _cut(self, logits: torch.Tensor) -> torch.Tensor:
        """Set the tokens that top-k, top-p and min-p exclude to -inf."""
        params, width = self._params, logits.shape[-1]
        floor = torch.full_like(logits[:, :1], float("-inf"))
        if 0 < params.top_k < width:
            floor = logits.topk(params.top_k).values[:, -1:]
        if params.top_p < 1.0:
            weights = ((logits - logits.amax(-1, keepdim=True)) / params.temperature).masked_fill(
                logits < floor, float("-inf")
            )
            count = min(_TOP_P_CANDIDATES, width)
            best, order = weights.softmax(-1).topk(count)
            inside = (best.cumsum(-1) - best) < params.top_p
            last = inside.sum(-1, keepdim=True) - 1
            least = logits.gather(-1, order.gather(-1, last.clamp(min=0)))
            # Rows whose candidates do not reach top_p keep all tokens.
            floor = torch.maximum(floor, least) if count == width else torch.where(last < count - 1, least, floor)
        if params.min_p > 0.0:
            floor = torch.maximum(
                floor, logits.amax(-1, keepdim=True) + params.temperature * float(np.log(params.min_p))
            )
        return logits.masked_fill(logits < floor, float("-inf"))

    def _penalties(self, history: History) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """(which tokens occurred, what to add to their logits), by draft id; None for penalties that are off."""
        params, seen, shift = self._params, None, None
        if params.repetition_penalty != 1.0:
            occurred = history.seen(self._vocab_size)
            seen = torch.from_numpy(occurred.copy() if self._ids is None else occurred[self._ids])
        if params.presence_penalty or params.frequency_penalty or params.logit_bias:
            shifts = np.zeros(self._vocab_size)
            for token, count in history.counts.items():
                shifts[token] -= params.presence_penalty + params.frequency_penalty * count
            for token, bias in params.logit_bias.items():
                shifts[token] += bias
            shift = torch.from_numpy(shifts if self._ids is None else shifts[self._ids])
        return seen, shift
