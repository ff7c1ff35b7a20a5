"""Int8 linear layers: weights as integers from -127 to 127 with one scale per output, and exact sums of integers.

A row of activations becomes integers of eight bits, too, multiples of its own step (`rounding.py`), and products are
sums of integers, without rounding. So what a row gives does not depend on the rows beside it, their number, threads or
processor: a draft's rows give the bits of plain decoding. Rows and weights are rotated before they are rounded
(`rotation.py`), so that few activations are far above the others, and eight bits are enough.

Knows layers and their products; knows no model and no clock.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch

from decoder import dtypes
from decoder.model.linear.int8 import vnni
from decoder.model.linear.int8.integer_product import PIECE, kernel
from decoder.model.linear.int8.torch_product import TorchProduct
from decoder.model.linear.int8.vnni import VnniProduct
from decoder.model.linear.integer_linear import IntegerLinear, LayerProduct
from decoder.model.linear.rounding import rotated

LARGEST = 127


class Int8Product(LayerProduct, Protocol):
    """One whose integers can be read back."""

    def integers(self) -> torch.Tensor:
        """int8 [out, in]."""


class Int8Linear(IntegerLinear):
    """A linear layer of int8 weights.

    Args:
        weight: [out, in], of any floating dtype; it is not kept.
        bias: [out] or None.
        dtype: of its inputs and outputs.

    Attributes:
        product: of the integers [out, in], those of the rotated weights, with rows.
        scale: float32 [out]; exact in bfloat16.
    """

    FORMAT = dtypes.INT8
    product: Int8Product
    scale: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        integers, scale = quantised(weight)
        self._set(integers, scale, None if bias is None else bias.detach().to(dtype), dtype)

    def _set(self, integers: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self._set_sizes(len(integers), integers.shape[1], bias, dtype)
        self.product = product_class(self.in_features)(integers, scale, bias)
        self.register_buffer("scale", scale)

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
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
        part = Int8Linear.__new__(Int8Linear)
        part._set(self.integers[numbers], self.scale[numbers], self._bias_of(numbers), self.dtype)
        return part

    def weight_rows(self, numbers: torch.Tensor) -> torch.Tensor:
        return rotated(self.integers[numbers] * self.scale[numbers, None]).to(self.dtype)


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
