"""Conditioner: conditions a mask's draft on its chain's point and on the token before it. An addition to SDSAT's paper.

A mask's row is computed before the tokens that precede its prediction are chosen, so it mixes the continuations of all
of them. When drafts are read off, more is known: the preceding token, and the state of the chain's point, which chose
the first of these tokens. The conditioner adds linear maps of row, point and token, which an EAGLE head starts from as
well and which have a closed-form solution, and a hidden layer that learns the rest.

Knows tensors; knows no model, no row of a pass and no tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F

ROW = 0.1
"""Weight of a mask's own row before training."""


@dataclass(slots=True)
class Conditioner:
    """Weights.

    Attributes:
        row, point, token: [k, D, D], by index in the chain: maps of a mask's row, of its point's state, and of the
            embedding of the token before its prediction.
        state, before: [C, D], inputs of the hidden units: the sum of row and point, and the token's embedding.
        out: [D, C], output of the hidden units.
    """

    row: torch.Tensor
    point: torch.Tensor
    token: torch.Tensor
    state: torch.Tensor
    before: torch.Tensor
    out: torch.Tensor

    @classmethod
    def fresh(cls, masks: int, width: int, hidden: int, source: torch.Generator) -> Conditioner:
        """Untrained weights, float32 on the CPU: they return ROW times the row.

        Args:
            masks: k.
            width: D.
            hidden: C.
            source: of the random weights.
        """
        row = ROW * torch.eye(width).repeat(masks, 1, 1)
        state, before = torch.randn(2, hidden, width, generator=source) / math.sqrt(width)
        return cls(row, torch.zeros_like(row), torch.zeros_like(row), state, before, torch.zeros(width, hidden))

    @property
    def hidden(self) -> int:
        """C, the number of hidden units."""
        return len(self.state)

    def condition_on_points(self, mask: int, rows: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """Combine rows of one mask with their points' states: [n, D] each -> [n, D]."""
        dtype = rows.dtype
        return F.linear(rows, self.row[mask].to(dtype)) + F.linear(points, self.point[mask].to(dtype))

    def combined(self, mask: int, states: torch.Tensor, before: torch.Tensor, normed: bool = False) -> torch.Tensor:
        """Combine states of one mask with the tokens before its prediction.

        Args:
            mask: its index in the chain.
            states: [..., D], from `condition_on_points`.
            before: [..., D], embeddings of these tokens.
            normed: whether the root mean squares of `before` are already 1.

        Returns:
            [..., D], from which the output matrix computes logits.
        """
        state, token, hidden, out = (
            weight.to(states.dtype) for weight in (self.state, self.token[mask], self.before, self.out)
        )
        if not normed:
            before = F.rms_norm(before, before.shape[-1:])
        units = F.silu(F.linear(states, state) + F.linear(before, hidden))
        return states + F.linear(before, token) + F.linear(units, out)

    def misfit(self, masks: int, width: int) -> bool:
        """Whether a tensor has the wrong shape for k = `masks` and D = `width`."""
        square, units = (masks, width, width), (self.hidden, width)
        shapes = (square, square, square, units, units, (width, self.hidden))
        return any(tensor.shape != shape for tensor, shape in zip(self.tensors().values(), shapes, strict=True))

    def tensors(self) -> dict[str, torch.Tensor]:
        """All weights by name, in the order of the attributes."""
        return {name: getattr(self, name) for name in NAMES}


NAMES = tuple(field.name for field in fields(Conditioner))
