"""An int8 layer's product in machine code (`vnni_code.py`), on x86 processors with AVX-512 VNNI.

It gives the bits of `TorchProduct` of finite rows: the same integers, exact sums, and the same float32 operations after
them. The code is made at the first use.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from copy import copy
from functools import cache
from pathlib import Path

import torch

from decoder.dtypes import flags
from decoder.model.linear.calls import Call, Empty
from decoder.model.linear.int8.torch_product import TorchProduct
from decoder.model.linear.rounding import ZERO, rotated, rounded, rounding
from decoder.model.linear.rounding import available as has_code
from decoder.model.linear.run import Run
from decoder.model.linear.tiled_matrix import TiledMatrix

log = logging.getLogger(__name__)

COLUMNS = 16
"""Inputs of a layer come in multiples of this."""
FLAGS = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"})


class VnniProduct:
    """The integers of a layer in the code's order, with their scales.

    Args:
        integers: int8 [out, in], from -127 to 127, of rotated weights, `in` a multiple of `COLUMNS`.
        scale: float32 [out].
        bias: [out] or None.

    Attributes:
        nbytes: of the integers and what belongs to their rows.
    """

    def __init__(self, integers: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._matrix = TiledMatrix(integers, 4)
        self._scale = self._matrix.filled(scale)
        self._bias = self._matrix.filled(torch.zeros_like(scale) if bias is None else bias.float())
        self._zero = self._matrix.filled(integers.sum(1, dtype=torch.int32) * ZERO)
        self.nbytes = sum(kept.nbytes for kept in (self._matrix.tiles, self._scale, self._bias, self._zero))

    @property
    def kind(self) -> Hashable | None:
        return self._matrix.kind

    def joined(self, products: Sequence[VnniProduct]) -> VnniProduct:
        whole = copy(self)
        whole._matrix = self._matrix.joined([product._matrix for product in products])
        for name in ("_scale", "_bias", "_zero"):
            setattr(whole, name, torch.cat([getattr(product, name) for product in products]))
        return whole

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in], writes [n, out]."""
        if rows.dtype is not torch.bfloat16 or output.dtype is not torch.bfloat16:
            rows = rows.float()  # outputs are written in the rows' format
        self._matrix.multiply(rows, output, self._multiply)

    def _multiply(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        self._call(*rounded(rows), output).run()

    @property
    def width(self) -> int:
        """As `PreparedProduct.width`."""
        return self._matrix.width

    def calls(self, rows: torch.Tensor, output: torch.Tensor, empty: Empty) -> list[Call]:
        """As `PreparedProduct.calls`."""
        if not has_code():
            raise RuntimeError("rows are rounded by torch")
        first, integers, steps = rounding(rows, empty)
        return [first, self._call(integers, steps, output)]

    def _call(self, integers: torch.Tensor, steps: torch.Tensor, output: torch.Tensor) -> Call:
        """The call that multiplies rounded rows."""
        matrix = self._matrix
        return Call(
            functions()[output.dtype],
            [
                integers.data_ptr(), matrix.columns, integers.shape[0], steps.data_ptr(), matrix.tiles.data_ptr(),
                self._scale.data_ptr(), self._bias.data_ptr(), self._zero.data_ptr(), output.data_ptr(), matrix.width,
                matrix.tiles.shape[0], matrix.share, 0,
            ],
            matrix.threads,
            (integers, steps, matrix.tiles, self._scale, self._bias, self._zero, output),
        )  # fmt: skip

    def integers(self) -> torch.Tensor:
        """int8 [out, in]."""
        return self._matrix.weight()


def suits(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether a processor has the instructions, and no faster ones (AMX).

    Args:
        processor: describes it, as Linux does.
    """
    found = flags(processor)
    return found >= FLAGS and "amx_int8" not in found


@cache
def available(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the code is for this processor, and multiplies right here. Argument as `suits`."""
    try:
        return suits(processor) and _right()
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("int8 layers use torch's kernels: no machine code of their own (%s)", problem)
        return False


def _right() -> bool:
    """Whether products equal the reference's, among them those of the largest numbers."""
    integers = (torch.arange(70 * 64) * 37 % 255 - 127).view(70, 64).to(torch.int8)
    integers[1], integers[2] = 127, -127
    rows = torch.linspace(-1.0, 1.0, 5 * 64).view(5, 64)
    rows[0], rows[1] = rotated(torch.stack((torch.ones(64), -torch.ones(64))))  # whose integers are 127 and -127
    scale, bias = torch.linspace(0.5, 2.0, 70), torch.linspace(-1.0, 1.0, 70)
    outputs = torch.empty(2, 5, 70)
    VnniProduct(integers, scale, bias)(rows, outputs[0])
    TorchProduct(integers, scale, bias)(rows, outputs[1])
    return torch.equal(*outputs)


@cache
def functions() -> dict[torch.dtype, Run]:
    """Products, for outputs of each dtype.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.linear.int8.vnni_code import program

    made = program().compiled("avx512vnni")
    return {torch.bfloat16: made["product_16"], torch.float32: made["product_32"]}
