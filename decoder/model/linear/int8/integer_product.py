"""Products with matrices of eight-bit integers whose sums are exact, so that a row's do not depend on other rows.

Three kernels, chosen by the processor. All give the same numbers, in digits (below) for up to 16,512 columns:

* oneDNN's, where the processor has matrix units for integers (AMX);
* FBGEMM's on other x86 processors, the fastest for a few rows, from AVX2 on;
* oneDNN's there too if this torch has no FBGEMM, and elsewhere a conversion to float64, which is slow.

Without VNNI, kernels add two products in 16 bits first, and hold the sum at the largest number if it is larger, as
2 * 255 * 127 is. There, a row is multiplied as two rows of digits, which are small enough.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from decoder.dtypes import flags
from decoder.model.linear.rounding import LARGEST, ZERO

RADIX = 16
DIGIT_ZERO = RADIX // 2
"""Digits are from -DIGIT_ZERO to DIGIT_ZERO, and stored as what they are above -DIGIT_ZERO."""
WIDE_FLAGS = frozenset({"avx512_vnni"})
"""Of processors on which all kernels add products in 32 bits; with AVX-VNNI alone not all do."""
PIECE = 1 << 24
"""Most weights that are converted at once: 64 MB in float32."""


class IntegerProduct(Protocol):
    """A matrix, int8 [out, in], in the order that a kernel reads."""

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""

    def __call__(self, integers: torch.Tensor) -> torch.Tensor:
        """Integers from -127 to 127, + ZERO, uint8 [n, in] -> their exact products, float32 [n, out], rounded once.

        In digits, this holds for up to 16,512 columns; of more, the sum of a row's high digits is rounded too if it is
        above 2^24.
        """

    def integers(self) -> torch.Tensor:
        """The matrix, int8 [out, in]."""


class Fbgemm:
    """FBGEMM's product; `torch.ops.quantized` is how torch offers it for given integers."""

    def __init__(self, integers: torch.Tensor) -> None:
        self.nbytes = integers.nbytes
        ones, zeros = torch.ones(len(integers), dtype=torch.float64), torch.zeros(len(integers), dtype=torch.int64)
        with warnings.catch_warnings(), _engine("fbgemm"):
            warnings.simplefilter("ignore")  # such tensors are deprecated; there is no other way in
            weights = torch._make_per_channel_quantized_tensor(integers, ones, zeros, 0)
            self._packed: Any = torch.ops.quantized.linear_prepack(weights, None)

    def __call__(self, integers: torch.Tensor) -> torch.Tensor:
        return _wide_or_in_digits(self._product, integers)

    def _product(self, unsigned: torch.Tensor, zero: int) -> torch.Tensor:
        product: torch.Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            unsigned.float() - zero, 1.0, zero, self._packed
        )
        return product

    def integers(self) -> torch.Tensor:
        unpacked: torch.Tensor = torch.ops.quantized.linear_unpack(self._packed)[0].int_repr()
        return unpacked


class OneDnn:
    """oneDNN's product."""

    def __init__(self, integers: torch.Tensor) -> None:
        self.nbytes = integers.nbytes
        self._columns = integers.shape[1]
        self._packed: torch.Tensor = torch.ops.onednn.qlinear_prepack(integers.clone(), None)
        self._ones = torch.ones(len(integers))
        self._zeros = torch.zeros(len(integers), dtype=torch.int32)

    def __call__(self, integers: torch.Tensor) -> torch.Tensor:
        return _wide_or_in_digits(self._product, integers)

    def _product(self, unsigned: torch.Tensor, zero: int) -> torch.Tensor:
        product: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, zero, self._packed, self._ones, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product

    def integers(self) -> torch.Tensor:
        """By a product with each unit vector, since the packed order cannot be read back."""
        pieces = torch.split(torch.eye(self._columns, dtype=torch.uint8) + ZERO, 256)
        return torch.cat([self(units).to(torch.int8).T for units in pieces], dim=1).contiguous()


class Converted:
    """A product of converted integers, in float64 so that its sums are exact."""

    def __init__(self, integers: torch.Tensor) -> None:
        self.nbytes = integers.nbytes
        self._integers = integers

    def __call__(self, integers: torch.Tensor) -> torch.Tensor:
        exact = integers.double() - ZERO
        pieces = torch.split(self._integers, max(PIECE // self._integers.shape[1], 1))
        return torch.cat([torch.mm(exact, piece.T.double()).float() for piece in pieces], dim=1)

    def integers(self) -> torch.Tensor:
        return self._integers


def _wide_or_in_digits(product: Callable[[torch.Tensor, int], torch.Tensor], integers: torch.Tensor) -> torch.Tensor:
    """The product of rows as they are, where sums are as wide, or in digits, whose products are put together again.

    Args:
        product: of numbers + zero, uint8 [n, in], and zero, with a matrix.
    """
    if adds_in_32_bits():
        return product(integers, ZERO)
    numbers = integers.to(torch.int16).sub_(ZERO)
    high = numbers.add(DIGIT_ZERO).div_(RADIX, rounding_mode="floor")
    digits = torch.cat((high, numbers.sub_(high, alpha=RADIX))).add_(DIGIT_ZERO).to(torch.uint8)
    upper, lower = product(digits, DIGIT_ZERO).chunk(2)
    return lower.add_(upper, alpha=RADIX)


@cache
def adds_in_32_bits(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether kernels of this processor, which the file describes as Linux does, hold every sum of two products."""
    return bool(flags(processor) & WIDE_FLAGS)


def pack(integers: torch.Tensor) -> IntegerProduct:
    """A matrix, int8 [out, in] from -127 to 127, for the fastest kernel of this processor."""
    return kernel()(integers)


@cache
def kernel(processor: Path = Path("/proc/cpuinfo")) -> type[Fbgemm] | type[OneDnn] | type[Converted]:
    """The kernel of this processor: the first that multiplies a small matrix right.

    Args:
        processor: describes it, as Linux does.
    """
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return Converted
    order: tuple[type[Fbgemm] | type[OneDnn], ...] = (Fbgemm, OneDnn)
    if "amx_int8" in flags(processor):
        order = (OneDnn, Fbgemm)
    return next((one for one in order if _multiplies(one)), Converted)


def _multiplies(one: Any) -> bool:
    """Whether a kernel is there and exact at the largest rows and weights."""
    try:
        product = one(torch.full((32, 64), 127, dtype=torch.int8))(torch.full((2, 64), LARGEST + ZERO).to(torch.uint8))
    except (RuntimeError, AttributeError, ValueError):
        return False
    return bool((product == 64 * 127 * LARGEST).all())


@contextmanager
def _engine(name: str) -> Iterator[None]:
    """Let torch pack for a kernel."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
