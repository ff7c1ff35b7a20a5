"""The machine code of layers in bfloat16 and float32: products of rows with a matrix.

AVX-512 BF16's `vdpbf16ps` multiplies 32 numbers by 32 and adds each two products to one of 16 sums of float32; in
float32, 16 products are added to as many sums, and each is rounded once. A sum takes its products in the order of the
columns, whatever other rows a product has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from decoder.model.linear.machine_code import (
    F32,
    FLOATS,
    I32,
    INTS,
    LANES,
    VECTORS,
    Code,
    Form,
    Program,
    Value,
    whole,
)
from decoder.model.linear.tiled_matrix import OUTPUTS

ROWS = 6
"""Rows of a tile: by VECTORS registers of sums, they are 24 of 32 registers."""
FIELDS = ("source", "columns", "rows", "matrix", "bias", "output", "width", "tiles", "share", "counter")
"""Rows [rows, columns] by a matrix of `tiles` times OUTPUTS outputs, of which a thread takes `share` tiles at once.
`bias` is float32. The output has rows of `width` numbers."""

Fields = dict[str, Value]


class _Bfloat16(ir.Type):  # type: ignore[misc]
    """LLVM's type, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bfloat16)

    def __hash__(self) -> int:
        return hash(_Bfloat16)


_PAIRS = ir.VectorType(_Bfloat16(), 2 * LANES)


def program(bits: int) -> Program:
    """The function `product`, for numbers of 16 bits (bfloat16) or 32 (float32)."""
    made = Program()
    made.add("product", FIELDS, frozenset({"source", "matrix", "bias", "output"}), partial(_product, bits=bits))
    return made


def _product(code: Code, fields: Fields, bits: int) -> None:
    form = Form(fields["columns"], bits // 8 * OUTPUTS, step=32 // bits, rows=ROWS, kind=FLOATS)
    code.tiles(fields, form, partial(_sums, code, fields, bits), partial(_finish, code, fields, bits))


def _sums(
    code: Code,
    fields: Fields,
    bits: int,
    matrix: Value,
    row: Value,
    count: int,
    columns: tuple[Value, Value],
    before: list[Value],
) -> list[Value]:
    """As `machine_code.Add`."""
    size, group = bits // 8, 32 // bits
    rows = [
        code.at(fields["source"], code.mul(code.add(row, whole(number)), fields["columns"]), size)
        for number in range(count)
    ]
    add: Callable[[Code, Value, Value, Value], Value] = _add_pairs if bits == 16 else _add
    kind, element = (INTS, I32) if bits == 16 else (FLOATS, F32)
    with code.loop(*columns, group, before) as (column, sums, found):
        weights = code.at(matrix, column, size * OUTPUTS)
        by_16 = [code.read_on(kind, weights, whole(part), 64, align=64) for part in range(VECTORS)]
        for place in rows:
            value = code.spread(code.read(element, place, column, size, align=size))
            for weight in by_16:
                found.append(add(code, sums[len(found)], value, weight))
    return found


def _finish(code: Code, fields: Fields, bits: int, tile: Value, row: Value, sums: list[Value]) -> None:
    """sum + bias, rounded to the output's format."""
    for number, total in enumerate(sums):
        outputs = code.add(code.mul(tile, whole(OUTPUTS)), whole(number * LANES))
        value = code.fadd(total, code.read(FLOATS, fields["bias"], outputs, 4, align=4))
        place = code.at(fields["output"], code.add(code.mul(row, fields["width"]), outputs), bits // 8)
        code.store(code.as_bfloat16(value) if bits == 16 else value, place, align=2)


def _add_pairs(code: Code, before: Value, value: Value, weight: Value) -> Value:
    pairs = (code.bitcast(one, _PAIRS) for one in (value, weight))
    return code.instruction("llvm.x86.avx512bf16.dpbf16ps.512", FLOATS, before, *pairs)


def _add(code: Code, before: Value, value: Value, weight: Value) -> Value:
    return code.instruction("llvm.fma.v16f32", FLOATS, value, weight, before)
