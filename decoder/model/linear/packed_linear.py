"""Packed linear layers: on a CPU, passes over a few rows use weights that were reordered once.

For two rows up to some dozens, the stock kernel reorders the whole weight matrix at every call, so a pass over two
rows can take twice as long as a pass over one. Weights that oneDNN reordered once avoid this cost of drafting. A
product with one row is limited by memory. The stock kernel runs it on one thread and is faster if there is only one
thread and no AVX-512; otherwise the packed kernel is (with AVX-512 it takes 0.8 of the time in fp32, half in bf16).
Wide passes such as prefill gain nothing and use the stock kernel. The choice depends on rows, threads and instruction
set only, so within a process the same pass always runs the same kernel.

The reordered copy takes as much memory as the weights; nothing is packed if memory is short. Outside our passes packed
layers behave like stock ones. Where there is code of our own, layers are tiled instead (`tiled_linear.py`), for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from decoder.model.linear import tiled_linear
from decoder.model.linear.integer_linear import IntegerLinear

MAX_ROWS = 96
"""Most rows of a product that uses packed weights."""
_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
_FREE_SHARE = 2.0
"""Free memory required, as a multiple of the packed copy."""


class PackedLinear(torch.nn.Linear):
    """A linear layer whose class `pack` changed to this one; its stock weights stay in use."""

    packed: torch.Tensor
    rows = range(0)
    """Row counts of products that use packed weights; empty outside our passes."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.numel() // input.shape[-1] in PackedLinear.rows:
            product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(input, self.packed, self.bias, "none", [], "")
            return product
        return F.linear(input, self.weight, self.bias)


@contextmanager
def packed_passes() -> Iterator[None]:
    """Let packed layers use their packed weights. Only the engine's thread may run passes."""
    fewest = 1 if torch.get_num_threads() > 1 or _AVX512 else 2
    before, PackedLinear.rows = PackedLinear.rows, range(fewest, MAX_ROWS + 1)
    try:
        yield
    finally:
        PackedLinear.rows = before


def pack(model: Any) -> int:
    """Reorder the weights of a model's linear layers, if that helps and memory suffices.

    Where `tiled_linear.py` has code for the processor, the reordered weights alone are kept, but for those that others
    hold. Weights that are read from a mapped file take their memory then, which has to be free.

    Returns:
        number of packed or tiled layers: 0 on devices other than the CPU, for dtypes that neither our code nor oneDNN
        supports here, and if memory is short: less than once the weights is free, twice for packed copies.
    """
    layers = [module for module in model.modules() if type(module) is torch.nn.Linear]
    kinds = {(layer.weight.device.type, layer.weight.dtype) for layer in layers}
    if not kinds or not kinds <= {("cpu", torch.float32), ("cpu", torch.bfloat16)}:
        return 0
    dtypes = {dtype for _, dtype in kinds}
    size = sum(layer.weight.nbytes for layer in layers)
    even = all(layer.in_features % 2 == 0 for layer in layers)
    if even and len(dtypes) == 1 and free_bytes() >= size and tiled_linear.available(*dtypes):
        for layer in layers:
            tiled_linear.tile(layer)
        return len(layers)
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or free_bytes() < _FREE_SHARE * size:
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


def kept_bytes(model: Any) -> int:
    """Bytes that linear layers keep beside parameters and buffers: packed copies, tiled weights, integers."""
    kept = 0
    for layer in model.modules():
        if isinstance(layer, PackedLinear):
            kept += layer.weight.nbytes
        elif isinstance(layer, (tiled_linear.TiledLinear, IntegerLinear)):
            kept += layer.nbytes
    return kept


def free_bytes() -> int:
    """Memory available without swapping, in bytes; 0 if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
