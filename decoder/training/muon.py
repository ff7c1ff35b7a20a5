"""Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon): momentum SGD that orthogonalises every update of a
matrix by a few Newton-Schulz steps, so that all directions of the matrix learn at the same rate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import ParamsT

STEPS = 5


def orthogonalised(update: torch.Tensor) -> torch.Tensor:
    """[..., m, n] -> the same singular vectors with singular values near 1, by a quintic iteration."""
    wide = update.to(torch.bfloat16 if update.is_cuda else torch.float32)
    tall = wide.shape[-2] > wide.shape[-1]
    wide = wide.mT if tall else wide
    wide = wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(STEPS):
        square = wide @ wide.mT
        wide = 3.4445 * wide + (-4.7750 * square + 2.0315 * square @ square) @ wide
    result: torch.Tensor = wide.mT if tall else wide
    return result.to(update.dtype)


class Muon(torch.optim.Optimizer):
    """For matrices; vectors and embeddings need AdamW.

    Args:
        lr: step size; a step's root mean square is that of AdamW with the same rate (factor 0.2 times the root of the
            longer side).
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                momentum.lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonalised(weight.grad.lerp(momentum, group["momentum"]))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update, alpha=-group["lr"] * 0.2 * max(weight.shape[-2:]) ** 0.5)
