"""Ridge regression over data that comes in parts."""

from __future__ import annotations

import torch

RIDGE = 0.01
"""Penalty of the weights' size, in mean squares of the inputs."""


class RidgeRegression:
    """Sums up products of inputs and targets in float64, and solves for the linear map between them.

    Args:
        inputs, outputs: widths.
        device: of the sums.
    """

    def __init__(self, inputs: int, outputs: int, device: torch.device) -> None:
        self._squares = torch.zeros(inputs, inputs, dtype=torch.float64, device=device)
        self._products = torch.zeros(inputs, outputs, dtype=torch.float64, device=device)

    def add(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Add [n, inputs] and [n, outputs]."""
        self._squares += inputs.T @ inputs
        self._products += inputs.T @ targets.to(inputs)

    def solve(self) -> torch.Tensor:
        """The map, float64 [outputs, inputs]. Changes the sums: call it once."""
        self._squares.diagonal().add_(RIDGE * self._squares.diagonal().mean() + 1e-12)
        weights: torch.Tensor = torch.linalg.solve(self._squares, self._products)
        return weights.T
