"""Int8 linear layers: weights as integers from -127 to 127 with one scale per output, and exact sums of integers.

A row of activations becomes integers of eight bits, too, multiples of its own step (`rounding.py`), and products are
sums of integers, without rounding. So what a row gives does not depend on the rows beside it, their number, threads or
processor: a draft's rows give the bits of plain decoding. Rows and weights are rotated before they are rounded
(`rotation.py`), so that few activations are far above the others, and eight bits are enough.

Knows layers and their products; knows no model and no clock.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from decoder.model.linear import vnni
from decoder.model.linear.integer_product import PIECE, kernel
from decoder.model.linear.rounding import rotated
from decoder.model.linear.tiled_linear import TiledLinear
from decoder.model.linear.torch_product import TorchProduct
from decoder.model.linear.vnni import VnniProduct

LARGEST = 127


class LayerProduct(Protocol):
    """The integers of a layer, in the order that its kernel reads, with their scales."""

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in] of any floating dtype, writes [n, out]."""

    def integers(self) -> torch.Tensor:
        """int8 [out, in]."""


class Int8Linear(torch.nn.Linear):
    """A linear layer of int8 weights.

    Args:
        weight: [out, in], of any floating dtype; it is not kept.
        bias: [out] or None.
        dtype: of its inputs and outputs.

    Attributes:
        product: of the integers [out, in], those of the rotated weights, with rows.
        scale: float32 [out]; exact in bfloat16.
    """

    scale: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        integers, scale = quantised(weight)
        self._set(integers, scale, None if bias is None else bias.detach().to(dtype), dtype)

    def _set(self, integers: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features = integers.shape
        self.dtype = dtype
        self.product: LayerProduct = product_class(self.in_features)(integers, scale, bias)
        self.register_buffer("scale", scale)
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias, requires_grad=False))

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
        """[out, in], what the layer multiplies by, rounded to its dtype. It is computed at every access."""
        return rotated(self.product.integers() * self.scale[:, None]).to(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the integers, however often, and of what belongs to their rows, but for the buffer `scale`."""
        integers = self.out_features * self.in_features if "integers" in self.__dict__ else 0
        return self.product.nbytes + integers

    @cached_property
    def integers(self) -> torch.Tensor:
        """int8 [out, in], kept from the first access on, for those who read single rows."""
        return self.product.integers()

    def rows(self, numbers: torch.Tensor) -> Int8Linear:
        """A layer of some of the outputs, int64 [n]."""
        part = Int8Linear.__new__(Int8Linear)
        bias = None if self.bias is None else self.bias.detach()[numbers]
        part._set(self.integers[numbers], self.scale[numbers], bias, self.dtype)
        return part

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.requires_grad and torch.is_grad_enabled():
            return F.linear(input, self.weight, self.bias)
        rows = input.reshape(-1, self.in_features)
        output = torch.empty(len(rows), self.out_features, dtype=self.dtype)
        self.product(rows, output)
        return output.view(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def product_class(columns: int) -> type[VnniProduct] | type[TorchProduct]:
    """The fastest product of a layer with so many inputs, on this processor."""
    return VnniProduct if columns % vnni.COLUMNS == 0 and vnni.available() else TorchProduct


def kernel_name() -> str:
    """What multiplies, for those who keep measurements of it."""
    return (VnniProduct if vnni.available() else kernel()).__name__


@torch.no_grad()
def quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate weights, and round them to the nearest integer multiples of a scale per row.

    Args:
        weight: [out, in], of any floating dtype.

    Returns:
        int8 [out, in], from -127 to 127; float32 [out], the scales: a rotated row's largest magnitude over 127, rounded
        to bfloat16, or 1 for a row of zeros.
    """
    integers = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight), dtype=torch.float32)
    step = max(PIECE // weight.shape[1], 1)
    for start in range(0, len(weight), step):
        part = rotated(weight[start : start + step].detach())
        scale = (part.abs().amax(1) / LARGEST).bfloat16().float()
        scale[scale == 0] = 1.0
        integers[start : start + step] = (part / scale[:, None]).round_().clamp_(-LARGEST, LARGEST)
        scales[start : start + step] = scale
    return integers, scales


def rows_of(layer: torch.nn.Linear, numbers: torch.Tensor) -> torch.Tensor:
    """The weights of some outputs of a linear layer, int64 [n] -> [n, in]."""
    if isinstance(layer, Int8Linear):
        return rotated(layer.integers[numbers] * layer.scale[numbers, None]).to(layer.dtype)
    if isinstance(layer, TiledLinear):
        return layer.matrix.rows(numbers)
    return layer.weight[numbers]


def quantise(model: Any, dtype: torch.dtype = torch.bfloat16) -> None:
    """Replace a stock model's linear layers, its output matrix included, and convert its other weights to `dtype`.

    The embeddings stay as they are, in `dtype`: a lookup reads a few rows, so integers would gain no time there. An
    output matrix that was tied to them becomes one of its own. Each layer's original weights are dropped before the
    next layer is converted.

    Args:
        model: on the CPU, in any floating dtype.
        dtype: of activations and of the other weights.
    """
    with torch.no_grad():
        for module in list(model.modules()):  # the output matrix comes before the embeddings that it may be tied to
            for name, child in list(module.named_children()):
                if type(child) is torch.nn.Linear:
                    setattr(module, name, Int8Linear(child.weight, child.bias, dtype))
                    child.weight = child.bias = None  # type: ignore[assignment]
            for weight in module.parameters(recurse=False):
                weight.data = weight.data.to(dtype)
    model.config.dtype = dtype
    model.config.tie_word_embeddings = False


def is_int8(model: Any) -> bool:
    """Whether a model has int8 layers."""
    return any(isinstance(module, Int8Linear) for module in model.modules())
