"""An int8 layer's product with any kernel of `integer_product.py`: the integers of rows, and sums of their products.

The readable form, and the reference of the compiled one (`vnni.py`), which gives the same bits.
"""

from __future__ import annotations

import torch

from decoder.model.linear.int8.integer_product import IntegerProduct, pack
from decoder.model.linear.rounding import rounded

PIECE_ROWS, PIECE_OUTPUTS = 128, 1 << 14
"""Most rows and outputs of a product, so that its float32 sums stay in a cache."""


class TorchProduct:
    """The integers of a layer, in the order that a kernel reads, with their scales.

    Args:
        integers: int8 [out, in], from -127 to 127, of rotated weights.
        scale: float32 [out].
        bias: [out] or None.

    Attributes:
        products: of the integers with those of rows, each of `PIECE_OUTPUTS` outputs at most.
        nbytes: of the integers.
    """

    kind: None = None
    """It cannot be joined with others."""

    def __init__(self, integers: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.products: list[IntegerProduct] = [pack(part) for part in torch.split(integers, PIECE_OUTPUTS)]
        self.nbytes = sum(product.nbytes for product in self.products)
        self._scale, self._bias = scale, bias

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in], writes [n, out]."""
        for first in range(0, len(rows), PIECE_ROWS):
            self._multiply(rows[first : first + PIECE_ROWS], output[first : first + PIECE_ROWS])

    def _multiply(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        integers, steps = rounded(rows)
        for number, product in enumerate(self.products):
            part = slice(number * PIECE_OUTPUTS, (number + 1) * PIECE_OUTPUTS)
            scaled = product(integers).mul_(self._scale[part]).mul_(steps[:, None])
            if self._bias is not None:
                scaled.add_(self._bias[part])
            output[:, part] = scaled

    def integers(self) -> torch.Tensor:
        """int8 [out, in]."""
        return torch.cat([product.integers() for product in self.products])
