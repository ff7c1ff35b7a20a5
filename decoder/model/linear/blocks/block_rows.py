"""Rows of activations as integers for layers of blocks: each 64 columns become multiples of a step of their own.

There is a readable form, and machine code with the same bits of finite rows (`block_code.py`). Knows rows; knows no
weights and no layer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

SPAN = 64
"""Columns with a step of their own. llama.cpp has one for 256, which changes the 1.5B model seven times as much."""
LARGEST = 127
"""The largest integer of a row."""
SMALLEST = 1e-30
"""The least that the largest magnitude of a span counts as, so that zeros have a step."""


class Rounded(NamedTuple):
    """Rows as integers.

    Attributes:
        integers: int8 [n, in], from -127 to 127.
        sums: int16 [n, in / group], of the integers of each group.
        steps: float32 [n, in / SPAN]: the largest magnitude of these columns over `LARGEST`. An integer times its step
            is the row's number, up to half a step.
    """

    integers: torch.Tensor
    sums: torch.Tensor
    steps: torch.Tensor


def readable(rows: torch.Tensor, group: int) -> Rounded:
    """Rounded rows [n, in], `in` a multiple of `SPAN`; the reference of the compiled form.

    Args:
        group: columns whose integers are added up.
    """
    parts = rows.float().reshape(len(rows), -1, SPAN)
    step = parts.abs().amax(2, keepdim=True).clamp_min_(SMALLEST).div_(LARGEST)
    integers = (parts * step.reciprocal()).round_().nan_to_num_(0.0).clamp_(-LARGEST - 1, LARGEST)
    sums = integers.view(len(rows), -1, group).sum(2).to(torch.int16)
    return Rounded(integers.to(torch.int8).view(len(rows), -1), sums, step[..., 0])
