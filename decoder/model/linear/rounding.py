"""Rows of activations as integers: each row is rotated (`rotation.py`) and rounded to multiples of a step of its own.

There is a readable form, and machine code for x86 processors with AVX2 that gives the same bits of finite rows
(`rounding_code.py`, made at the first use). Knows rows; knows no weights and no layer.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import torch

from decoder.dtypes import flags
from decoder.model.linear import rotation
from decoder.model.linear.calls import Call, Empty
from decoder.model.linear.rotation import block_of
from decoder.model.linear.run import Run

log = logging.getLogger(__name__)

LARGEST = 127
"""The largest integer of a row."""
ZERO = 128
"""Integers are stored without a sign: as what they are above -ZERO."""
SMALLEST = 1e-30
"""The least that a row's largest magnitude counts as, so that a row of zeros has a step."""
_ALONE = 1 << 14
"""Fewer numbers than this are rounded on one thread: waking another takes longer."""


def rounded(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The integers of rows and their steps.

    Args:
        rows: [n, in], of any floating dtype.

    Returns:
        uint8 [n, in], the integers, from -127 to 127, + ZERO; float32 [n], the steps: a rotated row's largest magnitude
        over `LARGEST`. An integer times its row's step is the rotated number, up to half a step. The step of a row with
        what is no number is none, or infinite.
    """
    return _compiled(rows) if rows.shape[1] % rotation.BLOCKS[-1] == 0 and available() else readable(rows)


def _compiled(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    call, integers, steps = rounding(_given(rows))
    call.run()
    return integers, steps


def rounding(rows: torch.Tensor, empty: Empty = torch.empty) -> tuple[Call, torch.Tensor, torch.Tensor]:
    """The call of the machine code that rounds rows, and what it writes.

    Args:
        rows: as in `rounded`, in bfloat16 or float32, contiguous.
        empty: makes room.
    """
    between = empty(*rows.shape, dtype=torch.float32)
    integers, steps = empty(*rows.shape, dtype=torch.uint8), empty(rows.shape[0], dtype=torch.float32)
    return _call("round", rows, between, integers, steps), integers, steps


def rotated(rows: torch.Tensor) -> torch.Tensor:
    """As `rotation.rotated`, with the same bits."""
    if not (rows.shape[1] % rotation.BLOCKS[-1] == 0 and available()):
        return rotation.rotated(rows)
    rows = _given(rows)
    turned = torch.empty(rows.shape, dtype=torch.float32)
    _call("rotate", rows, turned).run()
    return turned


def readable(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `rounded`; the reference of the compiled form."""
    turned = rotation.rotated(rows)
    step = turned.abs().amax(1, keepdim=True).clamp_min_(SMALLEST).div_(LARGEST)
    integers = turned.mul_(step.reciprocal()).round_().add_(ZERO)
    return integers.nan_to_num_(0.0).clamp_(0, 255).to(torch.uint8), step[:, 0]


def _given(rows: torch.Tensor) -> torch.Tensor:
    """Rows as the code reads them."""
    return (rows if rows.dtype in _BITS else rows.float()).contiguous()


def _call(name: str, rows: torch.Tensor, *results: torch.Tensor) -> Call:
    count, columns = rows.shape
    threads = 1 if rows.numel() < _ALONE else min(torch.get_num_threads(), count)
    written = [result.data_ptr() for result in results]
    function = code()[f"{name}_{_BITS[rows.dtype]}_{block_of(columns)}"]
    return Call(function, [rows.data_ptr(), columns, count, *written, 0], threads, (rows, *results))


_BITS = {torch.bfloat16: 16, torch.float32: 32}
FLAGS = frozenset({"avx2", "fma"})


def suits(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the code is worth its while on a processor, which the file describes as Linux does."""
    return flags(processor) >= FLAGS


@cache
def available(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the code is for this processor, and right here. Argument as `suits`."""
    try:
        return suits(processor) and _right()
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("rows of int8 layers are rounded by torch: no machine code for it (%s)", problem)
        return False


def _right() -> bool:
    """Whether some rows get the reference's bits, in each format and each size of blocks."""
    for columns in (512, 576, 48):
        rows = torch.linspace(-1.0, 1.0, 65 * columns).view(65, columns).pow(5)
        for dtype in _BITS:
            given = rows.to(dtype)
            if not all(torch.equal(*pair) for pair in zip(_compiled(given), readable(given), strict=True)):
                return False
    return True


@cache
def code() -> dict[str, Run]:
    """The functions of `rounding_code.py`.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.linear.rounding_code import program

    return program(ZERO, LARGEST, SMALLEST).compiled("avx2")
