"""Int8 linear layers: weights as integers from -127 to 127 with one scale per output, and exact sums of integers.

A row of activations becomes integers, too: multiples of a step, the row's largest magnitude over `STEPS`. Each is
written as two digits of radix 128, and the digits' products with the weights are sums of integers, without rounding
(`integer_product.py`). So what a row gives does not depend on the rows beside it, their number, threads or processor:
a draft's rows give the bits of plain decoding. Integers of 14 bits are as good as bfloat16: they are finer down to a
64th of the row's largest magnitude.

Knows layers and their products; knows no model and no clock.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F

from decoder.model.linear.integer_product import PIECE, IntegerProduct, pack

LARGEST = 127
RADIX = 128
STEPS = 63 * RADIX + 63
"""The largest integer of an activation: both its digits are at most 64."""
PIECE_ROWS, PIECE_OUTPUTS = 128, 1 << 14
"""Most rows and outputs of a product, so that its float32 sums stay in a cache."""
_SMALLEST = 1e-30
"""A row of zeros is divided by a step of this over `STEPS`."""


class Int8Linear(torch.nn.Linear):
    """A linear layer of int8 weights.

    Args:
        weight: [out, in], of any floating dtype; it is not kept.
        bias: [out] or None.
        dtype: of its inputs and outputs.

    Attributes:
        products: of the integers [out, in] with digits, each of `PIECE_OUTPUTS` outputs at most.
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
        self.products: list[IntegerProduct] = [pack(part) for part in torch.split(integers, PIECE_OUTPUTS)]
        self.register_buffer("scale", scale)
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias, requires_grad=False))

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
        """[out, in], what the layer multiplies by, rounded to its dtype. It is computed at every access."""
        return (self._unpacked() * self.scale[:, None]).to(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the integers, however often, and scales."""
        packed = sum(product.nbytes for product in self.products)
        return packed * (1 + ("integers" in self.__dict__)) + self.scale.nbytes

    @cached_property
    def integers(self) -> torch.Tensor:
        """int8 [out, in], kept from the first access on, for those who read single rows."""
        return self._unpacked()

    def _unpacked(self) -> torch.Tensor:
        return torch.cat([product.integers() for product in self.products])

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
        for first in range(0, len(rows), PIECE_ROWS):
            self._multiply(rows[first : first + PIECE_ROWS], output[first : first + PIECE_ROWS])
        return output.view(*input.shape[:-1], self.out_features)

    def _multiply(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in], writes [n, out]."""
        digits, step = digits_of(rows)
        for number, product in enumerate(self.products):
            part = slice(number * PIECE_OUTPUTS, (number + 1) * PIECE_OUTPUTS)
            high, low = product(digits).chunk(2)
            scaled = low.add_(high, alpha=RADIX).mul_(self.scale[part]).mul_(step)
            if self.bias is not None:
                scaled.add_(self.bias[part])
            output[:, part] = scaled

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def digits_of(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round each row to integers of its own step, and write them as two digits.

    Args:
        rows: [n, in], of any floating dtype.

    Returns:
        float32 [2n, in], whole numbers from -64 to 64: the high digits, then the low ones; float32 [n, 1], the steps: a
        row's largest magnitude over `STEPS`. high * RADIX + low, times the step, is the row, up to half a step.
    """
    step = rows.abs().amax(1, keepdim=True).float().clamp_min_(_SMALLEST).div_(STEPS)
    digits = torch.empty(2, *rows.shape)
    high, low = digits.unbind()
    torch.div(rows, step, out=low).round_()
    torch.div(low, RADIX, out=high).round_()
    low.sub_(high, alpha=RADIX)
    return digits.view(-1, rows.shape[1]), step


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
    if isinstance(layer, Int8Linear):
        return (layer.integers[numbers] * layer.scale[numbers, None]).to(layer.dtype)
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
