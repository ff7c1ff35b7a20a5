"""Exponentials of float32 numbers, in one order of operations, so that machine code can give the same bits."""

from __future__ import annotations

import torch

from decoder.model.linear.blocks.float32 import fused

LEAST = -87.0
"""The exponential of less is 0."""
LOG2E, LN2 = 1.44269504088896341, (0.693359375, -2.12194440e-4)
SERIES = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Of Cephes' `expf`: e^x = 1 + x + x^2 * (…), for |x| up to half of ln 2, which is the sum of two numbers."""
WHOLE = 1.5 * 2**23
"""A number that is added to this is rounded to the nearest integer, and stands in the lower bits."""


def exponentials(values: torch.Tensor) -> torch.Tensor:
    """e to the power of float32 numbers that are not above 0."""
    held = values.clamp(min=LEAST)
    power = fused(held, torch.tensor(LOG2E), torch.tensor(WHOLE)) - WHOLE
    rest = held
    for part in LN2:
        rest = fused(power, torch.tensor(-part), rest)
    series = torch.tensor(SERIES[0])
    for factor in SERIES[1:]:
        series = fused(series, rest, torch.tensor(factor))
    series = fused(series, rest * rest, rest) + 1.0
    return torch.ldexp(series, power.int()).where(values >= LEAST, 0.0)
