"""Coupler: lets a draft know more than the row of its mask, which the paper of SDSAT does not have.

A mask's row is computed before the tokens in front of the one it tells are chosen, and mixes the tokens that could
follow any of them. When drafts are read off, the token before is known, and so is the state of the point that the mask
hangs behind, which chose the token next to it. Linear maps of all three are what an EAGLE head starts from, and can be
solved for; one hidden layer over them learns what is left.

Knows tensors; knows no model, no row of a pass and no tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F

ROW = 0.1
"""Share of a mask's own row before training."""


@dataclass(slots=True)
class Coupler:
    """Weights.

    Attributes:
        row, point, token: [k, D, D], by place in the chain: what a mask's row, its point's state and the token before
            the one it tells add.
        state, before: [C, D], hidden units over what row and point came to, and over the token.
        out: [D, C].
    """

    row: torch.Tensor
    point: torch.Tensor
    token: torch.Tensor
    state: torch.Tensor
    before: torch.Tensor
    out: torch.Tensor

    @classmethod
    def fresh(cls, masks: int, width: int, hidden: int, source: torch.Generator) -> Coupler:
        """Untrained: a tenth of the row, nothing else. float32 on the CPU."""
        row = ROW * torch.eye(width).repeat(masks, 1, 1)
        state, before = torch.randn(2, hidden, width, generator=source) / math.sqrt(width)
        return cls(row, torch.zeros_like(row), torch.zeros_like(row), state, before, torch.zeros(width, hidden))

    @property
    def hidden(self) -> int:
        """C."""
        return len(self.state)

    def told(self, mask: int, rows: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """What is known before the token before: rows of one mask and their points' states, [n, D] each -> [n, D]."""
        dtype = rows.dtype
        return F.linear(rows, self.row[mask].to(dtype)) + F.linear(points, self.point[mask].to(dtype))

    def combined(self, mask: int, states: torch.Tensor, before: torch.Tensor, normed: bool = False) -> torch.Tensor:
        """States to read logits off.

        Args:
            states: [..., D], from `told`.
            before: [..., D], embeddings of the tokens before.
            normed: their root mean squares are 1 already.
        """
        state, token, hidden, out = (
            weight.to(states.dtype) for weight in (self.state, self.token[mask], self.before, self.out)
        )
        if not normed:
            before = F.rms_norm(before, before.shape[-1:])
        units = F.silu(F.linear(states, state) + F.linear(before, hidden))
        return states + F.linear(before, token) + F.linear(units, out)

    def misfit(self, masks: int, width: int) -> bool:
        """Whether a shape is wrong."""
        square, units = (masks, width, width), (self.hidden, width)
        shapes = (square, square, square, units, units, (width, self.hidden))
        return any(tensor.shape != shape for tensor, shape in zip(self.tensors().values(), shapes, strict=True))

    def tensors(self) -> dict[str, torch.Tensor]:
        """By name, in the order of the attributes."""
        return {name: getattr(self, name) for name in NAMES}


NAMES = tuple(field.name for field in fields(Coupler))
