"""The machine code of bfloat16 layers: products of rows with a matrix.

AVX-512 BF16's `vdpbf16ps` multiplies 32 numbers by 32 and adds each two products to one of 16 sums of float32. A sum
takes its products in the order of the columns, whatever other rows a product has.
"""

from __future__ import annotations

from llvmlite import ir

from decoder.model.linear.machine_code import (
    FLOATS,
    I32,
    INTS,
    LANES,
    VECTORS,
    Code,
    Program,
    Value,
    vector,
    whole,
)
from decoder.model.linear.tiled_matrix import OUTPUTS

ROWS = 6
"""Rows of a tile: by VECTORS registers of sums, they are 24 of 32 registers."""
FIELDS = ("source", "columns", "rows", "matrix", "bias", "output", "width", "tiles", "share", "counter")
"""Rows [rows, columns] by a matrix of `tiles` times OUTPUTS outputs, of which a thread takes `share` tiles at once.
`bias` is float32. The output has rows of `width` numbers."""


class _Bfloat16(ir.Type):  # type: ignore[misc]
    """LLVM's type, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bfloat16)

    def __hash__(self) -> int:
        return hash(_Bfloat16)


_PAIRS = ir.VectorType(_Bfloat16(), 2 * LANES)


def program() -> Program:
    """The function `product`."""
    made = Program()
    made.add("product", FIELDS, frozenset({"source", "matrix", "bias", "output"}), _product)
    return made


def _product(code: Code, fields: dict[str, Value]) -> None:
    def tile(number: Value, row: Value, count: int) -> None:
        sums = _sums(code, fields, number, row, count)
        for part in range(VECTORS):
            outputs = code.add(code.mul(number, whole(OUTPUTS)), whole(part * LANES))
            bias = code.read(FLOATS, fields["bias"], outputs, 4, align=4)
            for offset in range(count):
                at = code.mul(code.add(row, whole(offset)), fields["width"])
                value = code.as_bfloat16(code.fadd(sums[offset * VECTORS + part], bias))
                code.store(value, code.at(fields["output"], code.add(at, outputs), 2), align=2)

    code.tiles(fields, ROWS, tile)


def _sums(code: Code, fields: dict[str, Value], tile: Value, row: Value, count: int) -> list[Value]:
    """[count * VECTORS]."""
    columns = fields["columns"]
    matrix = code.at(fields["matrix"], code.mul(tile, columns), 2 * OUTPUTS)
    rows = [code.at(fields["source"], code.mul(code.add(row, whole(number)), columns), 2) for number in range(count)]
    zeros = [vector(FLOATS, 0.0)] * (count * VECTORS)
    with code.loop(whole(0), columns, 2, zeros) as (column, sums, found):
        weights = code.at(matrix, column, 2 * OUTPUTS)
        two_by_16 = [_pairs(code, code.read(INTS, weights, whole(part), 64, align=64)) for part in range(VECTORS)]
        for place in rows:
            two = _pairs(code, code.spread(code.read(I32, place, column, 2, align=2)))
            for weight in two_by_16:
                before = sums[len(found)]
                found.append(code.instruction("llvm.x86.avx512bf16.dpbf16ps.512", FLOATS, before, two, weight))
    return found


def _pairs(code: Code, value: Value) -> Value:
    return code.bitcast(value, _PAIRS)
