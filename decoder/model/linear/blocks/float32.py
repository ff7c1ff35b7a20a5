"""Arithmetic of float32 as processors do it, for the readable forms of machine code."""

from __future__ import annotations

import torch


def fused(first: torch.Tensor, second: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    """first * second + added in float32, rounded once (but for what is half a step of float32 in float64)."""
    return (first.double() * second.double() + added.double()).float()
