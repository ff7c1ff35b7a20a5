"""Packed linear layers: on a CPU, passes over a few rows take weights that were reordered once for them.

For two to some dozens of rows the stock kernel reorders the whole weight matrix at every call, so that a pass over two
rows can take twice as long as one over a single row, which is what drafting has to pay. oneDNN's reordered weights
spare that. A product with one row is a matrix-vector product, bound by memory: the stock kernel runs it on one thread
and is ahead there without AVX-512 (with it the packed one takes 0.8 of its time in fp32, half in bf16), the packed one
where there are more. Wide passes (prefill) gain nothing and keep the stock kernel. The rule goes by rows, threads and
instructions, so the same pass of a process takes the same kernel everywhere.

The reordered copy takes as much memory as the weights; where that is not to be had, nothing is packed. Outside our
passes the layers are the stock ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

MOST = 96
"""Rows of the widest product that takes packed weights."""
_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
_SPARE = 2.0
"""Free memory there must be, in sizes of the packed copy."""


class PackedLinear(torch.nn.Linear):
    """A linear layer that was switched to this class by `pack`; its weights are shared with the layer it was."""

    packed: torch.Tensor
    rows = range(0)
    """Those of products that take packed weights; none outside our passes."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.numel() // input.shape[-1] in PackedLinear.rows:
            product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(input, self.packed, self.bias, "none", [], "")
            return product
        return F.linear(input, self.weight, self.bias)


@contextmanager
def packed_passes() -> Iterator[None]:
    """Let packed layers take their packed weights; one engine thread a process runs passes."""
    fewest = 1 if torch.get_num_threads() > 1 or _AVX512 else 2
    before, PackedLinear.rows = PackedLinear.rows, range(fewest, MOST + 1)
    try:
        yield
    finally:
        PackedLinear.rows = before


def pack(model: Any) -> int:
    """Reorder the weights of a model's linear layers, where that helps and there is memory for it.

    Returns:
        layers packed; 0 on other devices than the CPU, for dtypes that oneDNN does not have here, and where less than
        twice the packed copy's memory is free.
    """
    layers = [module for module in model.modules() if type(module) is torch.nn.Linear]
    if model.device.type != "cpu" or model.dtype not in {torch.float32, torch.bfloat16} or not layers:
        return 0
    size = sum(layer.weight.nbytes for layer in layers)
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or free_bytes() < _SPARE * size:
        return 0
    try:
        for layer in layers:
            packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
            layer.__class__ = PackedLinear
            layer.packed = packed
    except (RuntimeError, AttributeError):  # no instructions for this dtype, or a torch without the operator
        for layer in layers:
            layer.__class__ = torch.nn.Linear
            layer.__dict__.pop("packed", None)
        return 0
    return len(layers)


def free_bytes() -> int:
    """Memory that can be had without swapping; 0 where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
