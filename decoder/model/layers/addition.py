"""Sums of rows in bfloat16 in machine code (`addition_code.py`), with torch's bits of finite numbers."""

from __future__ import annotations

from functools import cache

import torch

from decoder.model.linear.calls import Call
from decoder.model.linear.run import Run

COLUMNS = 16
"""Columns come in multiples of this."""
_ALONE = 1 << 15
"""Fewer numbers than this are added on one thread: waking another takes longer."""


def call(one: torch.Tensor, other: torch.Tensor, output: torch.Tensor) -> Call:
    """That of the machine code, of bfloat16 [n, columns], contiguous."""
    count, columns = one.shape
    threads = 1 if count * columns < _ALONE else min(torch.get_num_threads(), count)
    fields = [one.data_ptr(), other.data_ptr(), columns, count, output.data_ptr(), 0]
    return Call(code(), fields, threads, (one, other, output))


@cache
def code() -> Run:
    """The function of `addition_code.py`. Raises as `rms_norm.code`."""
    from decoder.model.layers.addition_code import program

    return program().compiled("avx2")["add"]
