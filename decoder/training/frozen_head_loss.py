"""Cross-entropy against a target's likeliest tokens, through an output matrix that is not trained.

Only the input rows need a gradient, so it is computed together with the loss, chunk by chunk: logits over the
vocabulary exist for one chunk of rows at a time.

A large vocabulary can be sampled: all likely tokens and some others, weighted to represent the rest (Bengio and Senécal
2008, with uniform draws). For 16k tokens and 2k draws a step takes half the time and learns as much.
"""

from __future__ import annotations

import math
from typing import Any

import torch

CHUNK = {"cpu": 512, "cuda": 8192}
"""Rows of a chunk."""


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        matrix: torch.Tensor,
        ids: torch.Tensor,
        chances: torch.Tensor,
        weights: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gradient = torch.empty_like(states)
        chosen, total = [], torch.zeros((), device=states.device, dtype=torch.float32)
        size = CHUNK[states.device.type]
        for start in range(0, len(states), size):
            part = slice(start, start + size)
            logits = torch.mm(states[part].to(matrix.dtype), matrix.T).float() + weights  # [n, V]
            chosen.append(logits.argmax(-1))
            logs = logits.log_softmax(-1)
            total -= (logs.gather(1, ids[part]) * chances[part]).sum()
            error = logs.exp_().mul_(chances[part].sum(-1, keepdim=True))
            error.scatter_add_(1, ids[part], -chances[part])
            gradient[part] = torch.mm(error.to(matrix.dtype), matrix).to(gradient.dtype)
        ctx.save_for_backward(gradient)
        best = torch.cat(chosen)
        ctx.mark_non_differentiable(best)
        return total, best

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0].to(gradient.dtype), None, None, None, None


def frozen_head_loss(
    states: torch.Tensor,
    matrix: torch.Tensor,
    ids: torch.Tensor,
    chances: torch.Tensor,
    drawn: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Summed cross-entropy, and the tokens that the rows would choose.

    Args:
        states: [n, D].
        matrix: [V, D], in the dtype of the products.
        ids: int64 [n, k], the likeliest tokens as row numbers of the matrix.
        chances: float32 [n, k]; 0 for tokens the matrix lacks.
        drawn: int64, uniformly drawn tokens that represent all tokens which no row finds likely; None counts every
            token.

    Returns:
        (scalar float32, int64 [n]); the chosen tokens are among those that count.
    """
    if drawn is None:
        loss, best = _Loss.apply(states, matrix, ids, chances, matrix.new_zeros(1).float())  # type: ignore[no-untyped-call]
        return loss, best
    likely = torch.unique(ids[chances > 0])
    place = torch.full((len(matrix),), -1, device=ids.device)
    place[drawn] = 0
    place[likely] = -1
    others = (place == 0).nonzero()[:, 0]
    counted = torch.cat([likely, others])
    place[counted] = torch.arange(len(counted), device=ids.device)
    weights = torch.zeros(len(counted), device=ids.device)
    weights[len(likely) :] = math.log((len(matrix) - len(likely)) / max(len(others), 1))
    loss, best = _Loss.apply(states, matrix[counted], place[ids].clamp(min=0), chances, weights)  # type: ignore[no-untyped-call]
    return loss, counted[best]


def sample_tokens(matrix: torch.Tensor, count: int, source: torch.Generator) -> torch.Tensor:
    """Uniform draws from the rows of an output matrix, int64 [count], on its device."""
    return torch.randint(len(matrix), (count,), generator=source).to(matrix.device)
