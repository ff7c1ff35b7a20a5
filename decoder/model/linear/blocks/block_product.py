"""Products of rows with a matrix of blocks in machine code (`block_code.py`), on x86 processors with AVX2.

Sums of integers are exact within 64 columns; these are added in their order, each product and sum rounded once. So
what a row gives depends on no other row, on no threads, and on no processor: AVX2 and AVX-512 VNNI give the same bits.
The code is made at the first use.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from copy import copy
from functools import cache
from pathlib import Path

import torch

from decoder.dtypes import flags
from decoder.model.linear.blocks.block_matrix import BlockMatrix
from decoder.model.linear.blocks.block_rows import SPAN, Rounded, readable
from decoder.model.linear.blocks.file_blocks import BLOCK, BYTES, GROUP, MIDDLE, Blocks, read
from decoder.model.linear.blocks.float32 import fused
from decoder.model.linear.calls import Call, Empty
from decoder.model.linear.run import Run
from decoder.model.linear.tiled_matrix import share_of
from decoder.weights.gguf_blocks import BlockFormat

log = logging.getLogger(__name__)

VNNI_FLAGS = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"})
_BITS = {torch.bfloat16: 16, torch.float32: 32}
_ALONE = 1 << 14
"""Fewer numbers than this are rounded on one thread: waking another takes longer."""


class BlockProduct:
    """The blocks of a layer in the code's order.

    Args:
        matrix: the blocks.
        bias: [out] or None.
    """

    def __init__(self, matrix: BlockMatrix, bias: torch.Tensor | None) -> None:
        self.matrix = matrix
        self._bias = torch.zeros(matrix.width) if bias is None else matrix.filled(bias.detach().float())
        self._group, self._name = GROUP[matrix.format], f"product_{matrix.format}"
        self.nbytes = matrix.records.nbytes + self._bias.nbytes

    @property
    def kind(self) -> Hashable | None:
        return self.matrix.kind

    def joined(self, products: Sequence[BlockProduct]) -> BlockProduct:
        whole = copy(self)
        whole.matrix = self.matrix.joined([product.matrix for product in products])
        whole._bias = torch.cat([product._bias for product in products])
        return whole

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in], writes [n, out]."""
        if rows.dtype not in _BITS or output.dtype is not rows.dtype:
            rows = rows.float()  # outputs are written in the rows' format
        self.matrix.multiply(rows.contiguous(), output, self._multiply)

    def _multiply(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        for call in self.calls(rows, output, torch.empty):
            call.run()

    @property
    def width(self) -> int:
        """As `PreparedProduct.width`."""
        return self.matrix.width

    def calls(self, rows: torch.Tensor, output: torch.Tensor, empty: Empty) -> list[Call]:
        """As `PreparedProduct.calls`."""
        matrix = self.matrix
        first, made = _rounding(rows, self._group, empty)
        tiles, threads = matrix.records.shape[0], matrix.threads
        fields = [
            made.integers.data_ptr(), made.sums.data_ptr(), made.steps.data_ptr(), matrix.columns, rows.shape[0],
            matrix.records.data_ptr(), self._bias.data_ptr(), output.data_ptr(), matrix.width, tiles,
            share_of(tiles, threads), 0,
        ]  # fmt: skip
        kept = (made.integers, made.sums, made.steps, matrix.records, self._bias, output)
        return [first, Call(code(_BITS[rows.dtype])[self._name], fields, threads, kept)]


def rounded(rows: torch.Tensor, group: int) -> Rounded:
    """As `block_rows.readable`, of bfloat16 or float32 rows, contiguous."""
    call, made = _rounding(rows, group, torch.empty)
    call.run()
    return made


def _rounding(rows: torch.Tensor, group: int, empty: Empty) -> tuple[Call, Rounded]:
    """The call of `rounded`, and what it writes."""
    count, columns = rows.shape
    integers = empty(count, columns, dtype=torch.int8)
    sums = empty(count, columns // group, dtype=torch.int16)
    steps = empty(count, columns // SPAN, dtype=torch.float32)
    threads = 1 if rows.numel() < _ALONE else min(torch.get_num_threads(), count)
    fields = [rows.data_ptr(), columns, count, integers.data_ptr(), sums.data_ptr(), steps.data_ptr(), 0]
    call = Call(code(_BITS[rows.dtype])[f"round_{group}"], fields, threads, (rows, integers, sums, steps))
    return call, Rounded(integers, sums, steps)


def reference(blocks: Blocks, rows: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The same numbers in torch, slowly: rows [n, in] -> float32 [n, out]."""
    group = GROUP[blocks.format]
    integers, sums, steps = readable(rows, group)
    weights = blocks.integers.double() - (MIDDLE if blocks.minima is None else 0)
    total = torch.zeros(len(rows), len(weights))
    for block in range(blocks.d.shape[1]):
        value, lesser = torch.zeros(2, *total.shape).unbind()
        for span in range(block * BLOCK // SPAN, (block + 1) * BLOCK // SPAN):
            exact, least = torch.zeros(2, *total.shape, dtype=torch.float64).unbind()
            for number in range(span * SPAN // group, (span + 1) * SPAN // group):
                columns = slice(number * group, (number + 1) * group)
                exact += integers[:, columns].double() @ weights[:, columns].T * blocks.scales[:, number].double()
                if blocks.minima is not None:
                    least += sums[:, number, None].double() * blocks.minima[:, number].double()
            value = fused(exact.float(), steps[:, span, None], value)
            lesser = fused(least.float(), steps[:, span, None], lesser)
        if blocks.dmin is not None:
            total = fused(-lesser, blocks.dmin[:, block].float(), total)
        total = fused(value, blocks.d[:, block].float(), total)
    return total if bias is None else total + bias.float()


def kernel_name(processor: Path = Path("/proc/cpuinfo")) -> str:
    """What LLVM calls the instructions that the code takes, of a processor that the file describes as Linux does."""
    return "avx512vnni" if flags(processor) >= VNNI_FLAGS else "avx2"


@cache
def available() -> bool:
    """Whether the code can be made here, and multiplies right."""
    try:
        right = _right()
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.warning("no machine code for layers of blocks: %s", problem)
        return False
    if not right:
        log.warning("machine code for layers of blocks multiplies wrong on this processor, so it is not used")
    return right


def _right() -> bool:
    """Whether products equal the reference's, in each format."""
    rows = torch.linspace(-1.0, 1.0, 5 * 512).view(5, 512).pow(3).bfloat16()
    bias = torch.linspace(-1.0, 1.0, 70)
    for kind in GROUP:
        blocks = read(_sample(70, 2, kind), kind)
        output = torch.empty(5, 70, dtype=torch.bfloat16)
        BlockProduct(BlockMatrix(iter([blocks]), 70), bias)(rows, output)
        if not torch.equal(output, reference(blocks, rows, bias).bfloat16()):
            return False
    return True


def _sample(out: int, count: int, kind: BlockFormat) -> torch.Tensor:
    """Blocks as a file has them, uint8 [out, bytes], with every value of a byte."""
    data = (torch.arange(out * count * BYTES[kind]) * 2654435761 >> 11).to(torch.uint8).view(out, count, -1)
    floats = torch.linspace(-0.5, 0.5, out * count * 2).view(out, count, 2).half().view(torch.uint8)
    if kind == "Q4_K":
        data[..., :4] = floats
    else:
        data[..., -2:] = floats[..., :2]
    return data.view(out, -1)


@cache
def code(bits: int) -> dict[str, Run]:
    """The functions of `block_code.py` for rows of so many bits a number.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.linear.blocks.block_code import program

    name = kernel_name()
    return program(bits, name == "avx512vnni").compiled(name)
