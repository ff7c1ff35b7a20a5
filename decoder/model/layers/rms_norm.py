"""Root mean square norms of bfloat16 rows in one piece of machine code, on x86 processors with AVX2.

The stock layers run seven operations, and for a few rows calling these takes longer than what they compute. Rounded
where the stock layers round. What a row gives depends on no other row. The code (`rms_norm_code.py`) is made at the
first use.
"""

from __future__ import annotations

import logging
import struct
from functools import cache
from types import MethodType
from typing import Any

import torch

from decoder.model.linear.calls import Call
from decoder.model.linear.rounding import suits
from decoder.model.linear.run import Run

log = logging.getLogger(__name__)

COLUMNS = 16
"""Columns come in multiples of this."""
_ALONE = 1 << 14
"""Fewer numbers than this are computed on one thread: waking another takes longer."""


def speed_up(model: Any) -> int:
    """Let the code compute a model's norms, if it is for them: those that round as Llama's, which is tried.

    Their modules stay, and compute as before where a gradient is asked for.

    Returns:
        how many.
    """
    if model.device.type != "cpu" or not available():
        return 0
    norms = [
        module
        for module in model.modules()
        if type(module).__name__.endswith("RMSNorm")
        and isinstance(getattr(module, "variance_epsilon", None), float)
        and module.weight.dtype is torch.bfloat16
        and module.weight.numel() % COLUMNS == 0
        and "forward" not in module.__dict__
        and _rounds_alike(module)
    ]
    for norm in norms:
        norm.forward = MethodType(_forward, norm)
    return len(norms)


def speeds_up(norm: Any) -> bool:
    """Whether the code computes a norm."""
    return getattr(norm.forward, "__func__", None) is _forward


@torch.no_grad()
def _rounds_alike(norm: Any) -> bool:
    """Whether a stock layer gives the reference's bits: OLMo's rounds behind the weights alone."""
    columns = norm.weight.numel()
    rows = torch.linspace(-3.0, 3.0, 4 * columns).view(4, columns).pow(3).bfloat16()
    return torch.equal(norm(rows), reference(rows, norm.weight, norm.variance_epsilon))


def _forward(norm: Any, rows: torch.Tensor) -> torch.Tensor:
    """What a norm's `forward` becomes."""
    weight: torch.Tensor = norm.weight
    fits = rows.dtype is weight.dtype is torch.bfloat16 and rows.device.type == "cpu"
    if not fits or (rows.requires_grad and torch.is_grad_enabled()):
        stock: torch.Tensor = type(norm).forward(norm, rows)
        return stock
    return normalised(rows, weight, norm.variance_epsilon)


def normalised(rows: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """bfloat16 [..., columns] -> the same.

    Args:
        weight: bfloat16 [columns].
        epsilon: is added to the mean square.
    """
    rows, columns = rows.contiguous(), weight.shape[0]
    output = torch.empty_like(rows)
    call(rows.view(-1, columns), weight.contiguous(), epsilon, output).run()
    return output


def call(rows: torch.Tensor, weight: torch.Tensor, epsilon: float, output: torch.Tensor) -> Call:
    """That of the machine code: `normalised` of rows [n, parts * columns], each part of a row by itself.

    Args:
        rows: may lie apart.
        weight: contiguous.
        output: as many numbers, contiguous.
    """
    columns, (count, width) = weight.shape[0], rows.shape
    threads = 1 if count * width < _ALONE else torch.get_num_threads()
    fields = [
        rows.data_ptr(), rows.stride(0), width // columns, columns, count * width // columns, weight.data_ptr(),
        _bits(epsilon), output.data_ptr(), 0,
    ]  # fmt: skip
    return Call(code(), fields, threads, (rows, weight, output))


def reference(rows: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """As `normalised`, as the stock layers do it."""
    exact = rows.float()
    exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * exact.to(rows.dtype)


@cache
def _bits(number: float) -> int:
    """Of a float32."""
    return int.from_bytes(struct.pack("<f", number), "little")


@cache
def available() -> bool:
    """Whether the code can be made here, and gives the reference's numbers, the last bit aside."""
    try:
        return suits() and _right()
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("norms are computed by torch: no machine code for them (%s)", problem)
        return False


def _right() -> bool:
    rows = torch.linspace(-3.0, 3.0, 5 * 96).view(5, 96).pow(3).bfloat16()
    weight = torch.linspace(0.5, 2.0, 96).bfloat16()
    return torch.allclose(normalised(rows, weight, 1e-6), reference(rows, weight, 1e-6), rtol=2**-7, atol=0.0)


@cache
def code() -> Run:
    """The function of `rms_norm_code.py`.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.layers.rms_norm_code import program

    return program().compiled("avx2")["norm"]
