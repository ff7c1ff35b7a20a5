"""Products with matrices of eight-bit integers whose sums are exact, so that a row's do not depend on other rows.

Three kernels, chosen by the processor. All give the same numbers:

* oneDNN's, where the processor has matrix units for integers (AMX);
* FBGEMM's on other x86 processors, the fastest for a few rows, from AVX2 on;
* oneDNN's there too if this torch has no FBGEMM, and elsewhere a conversion to float32, which is slow.

Without VNNI, kernels add two products in 16 bits first, and hold the sum at the largest number if it is larger. Rows of
digits from -64 to 64 and weights from -127 to 127 stay below it: (64 + 64) * 127 * 2 = 32,512.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from decoder.dtypes import flags

ZERO = 64
"""Digits are stored without a sign: as what they are above -ZERO."""
PIECE = 1 << 24
"""Most weights that are converted at once: 64 MB in float32."""


class IntegerProduct(Protocol):
    """A matrix, int8 [out, in], in the order that a kernel reads."""

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""

    def __call__(self, digits: torch.Tensor) -> torch.Tensor:
        """Whole numbers from -64 to 64, float32 [n, in] -> their exact products, rounded to float32 once, [n, out]."""

    def integers(self) -> torch.Tensor:
        """The matrix, int8 [out, in]."""


class Fbgemm:
    """FBGEMM's product; `torch.ops.quantized` is how torch offers it for given digits."""

    def __init__(self, integers: torch.Tensor) -> None:
        self.nbytes = integers.nbytes
        ones, zeros = torch.ones(len(integers), dtype=torch.float64), torch.zeros(len(integers), dtype=torch.int64)
        with warnings.catch_warnings(), _engine("fbgemm"):
            warnings.simplefilter("ignore")  # such tensors are deprecated; there is no other way in
            weights = torch._make_per_channel_quantized_tensor(integers, ones, zeros, 0)
            self._packed: Any = torch.ops.quantized.linear_prepack(weights, None)

    def __call__(self, digits: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            digits, 1.0, ZERO, self._packed
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

    def __call__(self, digits: torch.Tensor) -> torch.Tensor:
        unsigned = (digits + ZERO).to(torch.uint8)
        product: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, ZERO, self._packed, self._ones, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product

    def integers(self) -> torch.Tensor:
        """By a product with each unit vector, since the packed order cannot be read back."""
        pieces = torch.split(torch.eye(self._columns), 256)
        return torch.cat([self(units).to(torch.int8).T for units in pieces], dim=1).contiguous()


class Converted:
    """A product of converted integers, in float64 so that its sums are exact."""

    def __init__(self, integers: torch.Tensor) -> None:
        self.nbytes = integers.nbytes
        self._integers = integers

    def __call__(self, digits: torch.Tensor) -> torch.Tensor:
        exact = digits.double()
        pieces = torch.split(self._integers, max(PIECE // self._integers.shape[1], 1))
        return torch.cat([torch.mm(exact, piece.T.double()).float() for piece in pieces], dim=1)

    def integers(self) -> torch.Tensor:
        return self._integers


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
    """Whether a kernel is there and exact at the largest digits and weights."""
    try:
        product = one(torch.full((32, 64), 127, dtype=torch.int8))(torch.full((2, 64), float(ZERO)))
    except (RuntimeError, AttributeError, ValueError):
        return False
    return bool((product == 64 * 127 * ZERO).all())


@contextmanager
def _engine(name: str) -> Iterator[None]:
    """Let torch pack for a kernel."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
