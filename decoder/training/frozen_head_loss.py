"""Cross-entropy against a target's likeliest tokens, through an output matrix that is not trained.

Since only the rows going in need a gradient, it is computed together with the loss, some rows at a time: logits over
the vocabulary never exist for more than a chunk.
"""

from __future__ import annotations

from typing import Any

import torch

CHUNK = {"cpu": 512, "cuda": 8192}
"""Rows whose logits exist at a time."""


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, matrix: torch.Tensor, ids: torch.Tensor, chances: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gradient = torch.empty_like(states)
        chosen, total = [], torch.zeros((), device=states.device, dtype=torch.float32)
        size = CHUNK[states.device.type]
        for start in range(0, len(states), size):
            part = slice(start, start + size)
            logits = torch.mm(states[part].to(matrix.dtype), matrix.T).float()  # [n, V]
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
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0].to(gradient.dtype), None, None, None


def frozen_head_loss(
    states: torch.Tensor, matrix: torch.Tensor, ids: torch.Tensor, chances: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Summed cross-entropy, and what the rows would choose.

    Args:
        states: [n, D].
        matrix: [V, D], in the dtype of the products.
        ids: int64 [n, k], likeliest tokens, numbered as the matrix's rows.
        chances: float32 [n, k]; 0 for tokens the matrix lacks.

    Returns:
        (scalar float32, int64 [n]).
    """
    loss, best = _Loss.apply(states, matrix, ids, chances)  # type: ignore[no-untyped-call]
    return loss, best
