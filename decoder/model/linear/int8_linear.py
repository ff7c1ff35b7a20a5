"""Int8 linear layers: weights as integers from -127 to 127 with one scale per output, and two kernels for them.

A pass over a few rows is limited by reading the weights: torch's weight-only kernel reads the integers themselves. A
wider pass is limited by multiplying: it converts the same integers, a piece at a time, into a buffer that all layers
share, and multiplies them there. An integer of eight bits is exact in bfloat16 and in float32, both kernels sum in
float32, multiply the sum by the scale, and round once. So they differ by the order of summation only. Up to which
number of rows which kernel is used, and in which format the wider one multiplies, is measured on the machine
(`decoder.planning.kernel_border`).

Knows layers and their products; knows no model and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

PIECE = 1 << 24
"""Most weights that are converted at once: 64 MB in float32."""
LARGEST = 127
UNMEASURED = 16
"""Border until it is measured."""
_FEW_COLUMNS = 32
"""The weight-only kernel reads past the end of rows whose length is no multiple of its vectors."""


@dataclass(slots=True)
class Kernels:
    """Which kernel multiplies how many rows. All int8 layers of a model share one.

    Attributes:
        border: most rows of the weight-only kernel; 0 if it is never used.
        wide: the format in which the wider kernel multiplies bfloat16 activations: bfloat16 or float32.
    """

    border: int = UNMEASURED
    wide: torch.dtype = torch.float32
    _buffer: torch.Tensor | None = field(default=None, repr=False)

    def converted(self, integers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Integers, at most PIECE or one row of them, as numbers of a format; valid until the next call."""
        size = max(PIECE, integers.shape[-1])
        if self._buffer is None or self._buffer.dtype is not dtype or len(self._buffer) < integers.numel():
            with torch.inference_mode(False):
                self._buffer = torch.empty(size, dtype=dtype)
        made = self._buffer[: integers.numel()].view(integers.shape)
        made.copy_(integers)
        return made

    @property
    def nbytes(self) -> int:
        """Bytes of the shared buffer."""
        return 0 if self._buffer is None else self._buffer.nbytes


class Int8Linear(torch.nn.Linear):
    """A linear layer of int8 weights.

    Args:
        weight: [out, in], of any floating dtype; it is not kept.
        bias: [out] or None.
        dtype: of its inputs and outputs.
        kernels: shared by the layers of a model.

    Attributes:
        integers: int8 [out, in].
        scale: [out], in `dtype`; exact in bfloat16.
    """

    integers: torch.Tensor
    scale: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype, kernels: Kernels) -> None:
        integers, scale = quantised(weight)
        self._set(integers, scale.to(dtype), None if bias is None else bias.detach().to(dtype), kernels)

    def _set(self, integers: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, kernels: Kernels) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features = integers.shape
        self.register_buffer("integers", integers)
        self.register_buffer("scale", scale)
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias, requires_grad=False))
        self.kernels = kernels

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
        """[out, in], what the layer multiplies by, rounded to its dtype. It is computed at every access."""
        return self.integers.to(self.scale.dtype) * self.scale[:, None]

    @property
    def nbytes(self) -> int:
        """Bytes of the integers and scales."""
        return self.integers.nbytes + self.scale.nbytes

    def rows(self, numbers: torch.Tensor) -> Int8Linear:
        """A layer of some of the outputs, int64 [n]."""
        part = Int8Linear.__new__(Int8Linear)
        bias = None if self.bias is None else self.bias.detach()[numbers]
        part._set(self.integers[numbers], self.scale[numbers], bias, self.kernels)
        return part

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.requires_grad and torch.is_grad_enabled():
            return F.linear(input, self.weight, self.bias)
        flat = input.reshape(-1, self.in_features)
        few = len(flat) <= self.kernels.border and self.in_features % _FEW_COLUMNS == 0 and _has_few(flat.dtype)
        product = self._few(flat) if few else self._wide(flat)
        if self.bias is not None:
            product = product.add_(self.bias)
        return product.view(*input.shape[:-1], self.out_features)

    def _few(self, rows: torch.Tensor) -> torch.Tensor:
        """[n, in] -> [n, out], by torch's weight-only kernel."""
        product: torch.Tensor = torch._weight_int8pack_mm(rows.contiguous(), self.integers, self.scale)
        return product

    def _wide(self, rows: torch.Tensor) -> torch.Tensor:
        """[n, in] -> [n, out], by converted integers."""
        step = max(PIECE // self.in_features, 1)
        if self.out_features <= step:
            return self._piece(rows, self.integers, self.scale)
        product = rows.new_empty(len(rows), self.out_features)
        for start in range(0, self.out_features, step):
            part = slice(start, start + step)
            product[:, part] = self._piece(rows, self.integers[part], self.scale[part])
        return product

    def _piece(self, rows: torch.Tensor, integers: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        if rows.dtype is torch.bfloat16 and self.kernels.wide is torch.bfloat16:
            weights = self.kernels.converted(integers, torch.bfloat16)
            scaled: torch.Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, scale[None], weights, None, "mul")
            return scaled  # the scale multiplies the float32 sums, before they are rounded
        exact = torch.float64 if rows.dtype is torch.float64 else torch.float32
        weights = self.kernels.converted(integers, exact)
        return torch.mm(rows.to(exact), weights.T).mul_(scale.to(exact)).to(rows.dtype)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


@torch.no_grad()
def quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round weights to the nearest integer multiples of a scale per row.

    Args:
        weight: [out, in], of any floating dtype.

    Returns:
        int8 [out, in], from -127 to 127; float32 [out], the scales: a row's largest magnitude over 127, rounded to
        bfloat16, or 1 for a row of zeros.
    """
    integers = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight))
    step = max(PIECE // weight.shape[1], 1)
    for start in range(0, len(weight), step):
        part = weight[start : start + step].detach().float()
        scale = (part.abs().amax(1) / LARGEST).bfloat16().float()
        scale[scale == 0] = 1.0
        integers[start : start + step] = (part / scale[:, None]).round_().clamp_(-LARGEST, LARGEST)
        scales[start : start + step] = scale
    return integers, scales


def rows_of(layer: torch.nn.Linear, numbers: torch.Tensor) -> torch.Tensor:
    """The weights of some outputs of a linear layer, int64 [n] -> [n, in]."""
    return layer.rows(numbers).weight if isinstance(layer, Int8Linear) else layer.weight[numbers]


def quantise(model: Any, dtype: torch.dtype = torch.bfloat16) -> Kernels:
    """Replace a stock model's linear layers, its output matrix included, and convert its other weights to `dtype`.

    The embeddings stay as they are, in `dtype`: a lookup reads a few rows, so integers would gain no time there. An
    output matrix that was tied to them becomes one of its own. Each layer's original weights are dropped before the
    next layer is converted.

    Args:
        model: on the CPU, in any floating dtype.
        dtype: of activations and of the other weights.
    """
    kernels = Kernels(wide=torch.bfloat16 if multiplies_bfloat16() else torch.float32)
    with torch.no_grad():
        for module in list(model.modules()):  # the output matrix comes before the embeddings that it may be tied to
            for name, child in list(module.named_children()):
                if type(child) is torch.nn.Linear:
                    setattr(module, name, Int8Linear(child.weight, child.bias, dtype, kernels))
                    child.weight = child.bias = None  # type: ignore[assignment]
            for weight in module.parameters(recurse=False):
                weight.data = weight.data.to(dtype)
    model.config.dtype = dtype
    model.config.tie_word_embeddings = False
    return kernels


def kernels_of(model: Any) -> Kernels | None:
    """What the int8 layers of a model share; None if it has none."""
    return next((module.kernels for module in model.modules() if isinstance(module, Int8Linear)), None)


@cache
def multiplies_bfloat16() -> bool:
    """Whether oneDNN multiplies bfloat16 here and can scale the sums before it rounds them."""
    rows, weights, scale = torch.ones(1, 32).bfloat16(), torch.ones(32, 32).bfloat16(), torch.full((32,), 0.5)
    try:
        product = torch.ops.mkldnn._linear_pointwise.binary(rows, scale.bfloat16()[None], weights, None, "mul")
    except (RuntimeError, AttributeError):
        return False
    return bool((product == 16).all())


@cache
def _has_few(dtype: torch.dtype) -> bool:
    """Whether the weight-only kernel takes activations of a dtype here."""
    try:
        torch._weight_int8pack_mm(
            torch.ones(1, 32, dtype=dtype), torch.ones(32, 32).char(), torch.ones(32, dtype=dtype)
        )
    except (RuntimeError, AttributeError):
        return False
    return True
