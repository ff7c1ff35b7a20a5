"""An int8 layer's product with any kernel of `integer_product.py`: the digits of the rows, and sums of their products.

The readable form, and the reference of the compiled one (`vnni.py`), which gives the same bits.
"""

from __future__ import annotations

import torch

from decoder.model.linear.integer_product import IntegerProduct, pack

RADIX = 128
STEPS = 63 * RADIX + 63
"""The largest integer of an activation: both its digits are at most 64."""
PIECE_ROWS, PIECE_OUTPUTS = 128, 1 << 14
"""Most rows and outputs of a product, so that its float32 sums stay in a cache."""
SMALLEST = 1e-30
"""A row of zeros is divided by a step of this over `STEPS`."""


class DigitProduct:
    """The integers of a layer, in the order that a kernel reads, with their scales.

    Args:
        integers: int8 [out, in], from -127 to 127.
        scale: float32 [out].
        bias: [out] or None.

    Attributes:
        products: of the integers with digits, each of `PIECE_OUTPUTS` outputs at most.
        nbytes: of the integers.
    """

    def __init__(self, integers: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.products: list[IntegerProduct] = [pack(part) for part in torch.split(integers, PIECE_OUTPUTS)]
        self.nbytes = sum(product.nbytes for product in self.products)
        self._scale, self._bias = scale, bias

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in], writes [n, out]."""
        for first in range(0, len(rows), PIECE_ROWS):
            self._multiply(rows[first : first + PIECE_ROWS], output[first : first + PIECE_ROWS])

    def _multiply(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        digits, step = digits_of(rows)
        for number, product in enumerate(self.products):
            part = slice(number * PIECE_OUTPUTS, (number + 1) * PIECE_OUTPUTS)
            high, low = product(digits).chunk(2)
            scaled = low.add_(high, alpha=RADIX).mul_(self._scale[part]).mul_(step)
            if self._bias is not None:
                scaled.add_(self._bias[part])
            output[:, part] = scaled

    def integers(self) -> torch.Tensor:
        """int8 [out, in]."""
        return torch.cat([product.integers() for product in self.products])


def digits_of(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round each row to integers of its own step, and write them as two digits.

    Args:
        rows: [n, in], of any floating dtype.

    Returns:
        float32 [2n, in], whole numbers from -64 to 64: the high digits, then the low ones; float32 [n, 1], the steps: a
        row's largest magnitude over `STEPS`. high * RADIX + low, times the step, is the row, up to half a step.
    """
    step = rows.abs().amax(1, keepdim=True).float().clamp_min_(SMALLEST).div_(STEPS)
    digits = torch.empty(2, *rows.shape)
    high, low = digits.unbind()
    torch.div(rows, step, out=low).round_()
    torch.div(low, RADIX, out=high).round_()
    low.sub_(high, alpha=RADIX)
    return digits.view(-1, rows.shape[1]), step
