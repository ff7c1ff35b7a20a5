"""Linear layers whose products are machine code (`product_code.py`), on x86 processors: in float32 with AVX-512, in
bfloat16 with AVX-512 BF16 and no matrix units.

A product of up to six rows takes hardly longer than one of a single row, since both read every weight once. A row's
bits do not depend on the rows beside it. The weights are kept in the code's order alone.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from decoder.dtypes import flags
from decoder.model.linear.calls import Call, Empty
from decoder.model.linear.joint import Part
from decoder.model.linear.run import Run
from decoder.model.linear.tiled_matrix import TiledMatrix

log = logging.getLogger(__name__)

FLAGS = frozenset({"avx512f", "avx512bw", "avx512vl"})
BFLOAT16_FLAG, MATRIX_FLAG = "avx512_bf16", "amx_bf16"


class TiledLinear(torch.nn.Linear):
    """A linear layer whose class `tile` changed to this one."""

    matrix: TiledMatrix
    added: torch.Tensor
    """float32 [width], the bias."""
    part: Part | None = None
    """What it is of a joint product."""

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
        """[out, in], put in order anew at every access."""
        return self.matrix.weight()

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept beside the bias."""
        return self.matrix.tiles.nbytes + self.added.nbytes

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """In another format or on another device it is a stock layer again."""
        weight = fn(self.weight)
        if weight.dtype is not self.matrix.tiles.dtype or weight.device.type != "cpu":
            _untile(self, weight)
        return torch.nn.Module._apply(self, fn, recurse)  # type: ignore[no-untyped-call]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = self.weight

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dtype is not self.matrix.tiles.dtype or input.device.type != "cpu":
            return F.linear(input, self.weight, self.bias)  # says what does not fit
        if input.requires_grad and torch.is_grad_enabled():
            product: torch.Tensor = _WithGradient.apply(input, self)  # type: ignore[no-untyped-call]
            return product
        if self.part is not None:
            return self.part(input, input.dtype)
        return self.multiplied(input)

    @property
    def kind(self) -> Hashable | None:
        """As `Joinable.kind`."""
        return self.matrix.kind

    def joined(self, layers: Sequence[TiledLinear]) -> TiledProduct:
        """As `Joinable.joined`."""
        matrix = self.matrix.joined([layer.matrix for layer in layers])
        return TiledProduct(matrix, torch.cat([layer.added for layer in layers]))

    @property
    def product(self) -> TiledProduct:
        """What multiplies rows."""
        return TiledProduct(self.matrix, self.added)

    def multiplied(self, input: torch.Tensor) -> torch.Tensor:
        """[..., in] -> [..., out]."""
        rows = input.reshape(-1, self.in_features)
        output = torch.empty(len(rows), self.out_features, dtype=input.dtype)
        self.product(rows, output)
        return output.view(*input.shape[:-1], self.out_features)


class TiledProduct(NamedTuple):
    """A matrix, and float32 [width] that is added to each row's outputs."""

    matrix: TiledMatrix
    added: torch.Tensor

    @property
    def width(self) -> int:
        """As `PreparedProduct.width`."""
        return self.matrix.width

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in], writes [n, out]."""
        self.matrix.multiply(rows, output, self._multiply)

    def _multiply(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        for call in self.calls(rows, output):
            call.run()

    def calls(self, rows: torch.Tensor, output: torch.Tensor, empty: Empty = torch.empty) -> list[Call]:
        """As `PreparedProduct.calls`."""
        matrix, added = self
        fields = [
            rows.data_ptr(), matrix.columns, rows.shape[0], matrix.tiles.data_ptr(), added.data_ptr(),
            output.data_ptr(), matrix.width, matrix.tiles.shape[0], matrix.share, 0,
        ]  # fmt: skip
        return [Call(code(rows.dtype), fields, matrix.threads, (rows, matrix.tiles, added, output))]


class _WithGradient(torch.autograd.Function):
    """The product, and its gradient by the input alone: with one copy of the weights at a time."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, layer: TiledLinear) -> torch.Tensor:
        ctx.layer = layer
        return layer.multiplied(input)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0] @ ctx.layer.weight, None


def tile(layer: Any) -> None:
    """Change a layer, of an even number of inputs and without gradients of its own, to a tiled one. A weight that
    others hold stays theirs."""
    weight = layer.weight.detach()
    layer.matrix = TiledMatrix(weight, 4 // weight.itemsize)
    bias = torch.zeros(len(weight), dtype=torch.float32) if layer.bias is None else layer.bias.detach().float()
    layer.added = layer.matrix.filled(bias)
    del layer.weight
    layer.__class__ = TiledLinear


def _untile(layer: Any, weight: torch.Tensor) -> None:
    """Make it a stock layer with this weight."""
    if layer.part is not None:
        layer.part.dissolve()
    del layer.matrix, layer.added
    layer.__class__ = torch.nn.Linear
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)


def suits(dtype: torch.dtype, processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether a processor has the instructions for a dtype, and no faster ones.

    Args:
        processor: describes it, as Linux does.
    """
    found = flags(processor)
    if not found >= FLAGS or dtype not in {torch.float32, torch.bfloat16}:
        return False
    return dtype is torch.float32 or (BFLOAT16_FLAG in found and MATRIX_FLAG not in found)


@cache
def available(dtype: torch.dtype, processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the code is for this dtype and processor, and multiplies right here. Arguments as `suits`."""
    try:
        return suits(dtype, processor) and _right(dtype)
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("layers in %s use torch's kernels: no machine code of their own (%s)", dtype, problem)
        return False


def _right(dtype: torch.dtype) -> bool:
    """Whether products of small whole numbers, which every format holds, are exact."""
    layer = torch.nn.Linear(64, 70, device="meta")  # draws no random numbers
    for name, shape in (("weight", (70, 64)), ("bias", (70,))):
        values = (torch.arange(math.prod(shape)) % 7 - 3).view(shape).to(dtype)
        setattr(layer, name, torch.nn.Parameter(values, requires_grad=False))
    rows = (torch.arange(9 * 64) % 5 - 2).view(9, 64).to(dtype)
    wanted = F.linear(rows.float(), layer.weight.float(), layer.bias.float()).to(dtype)
    tile(layer)
    return torch.equal(layer(rows), wanted)


@cache
def code(dtype: torch.dtype) -> Run:
    """That of products.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.linear.product_code import program

    bits, feature = (16, "avx512bf16") if dtype is torch.bfloat16 else (32, "avx512f")
    return program(bits).compiled(feature)["product"]
