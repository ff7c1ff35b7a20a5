"""The machine code of int8 layers: products of rows of integers with a matrix.

AVX-512 VNNI's `vpdpbusd` multiplies 64 bytes by 64 bytes and adds each four products to one of 16 sums of 32 bits. The
code keeps `ROWS` rows by `OUTPUTS` outputs of sums in registers, and reads every weight once for all of them.
"""

from __future__ import annotations

from functools import partial

from decoder.model.linear.machine_code import (
    F32,
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
"""Rows of a tile: by VECTORS registers of sums, 24 of 32 registers."""

FIELDS = (
    "integers", "columns", "rows", "steps", "matrix", "scale", "bias", "zero", "output", "width", "tiles", "share",
    "counter",
)  # fmt: skip
"""Integers + ZERO, uint8 [rows, columns], by a matrix of `tiles` times OUTPUTS outputs; a thread takes `share` tiles at
once. `zero` is what ZERO adds to a sum. The output has rows of `width` numbers."""
_POINTERS = frozenset({"integers", "steps", "matrix", "scale", "bias", "zero", "output"})

Fields = dict[str, Value]


def program() -> Program:
    """The functions `product_B`, for outputs of B bits: 16 (bfloat16) or 32 (float32)."""
    made = Program()
    for bits in (16, 32):
        made.add(f"product_{bits}", FIELDS, _POINTERS, partial(_product, bits=bits))
    return made


def _product(code: Code, fields: Fields, bits: int) -> None:
    def tile(number: Value, row: Value, count: int) -> None:
        _finish(code, fields, number, row, _sums(code, fields, number, row, count), bits)

    code.tiles(fields, ROWS, tile)


def _sums(code: Code, fields: Fields, tile: Value, row: Value, count: int) -> list[list[Value]]:
    """Sums of `count` rows, [count][VECTORS]."""
    columns = fields["columns"]
    matrix = code.at(fields["matrix"], code.mul(tile, columns), OUTPUTS)
    rows = [code.at(fields["integers"], code.mul(code.add(row, whole(number)), columns), 1) for number in range(count)]
    zeros = [vector(INTS, 0)] * (count * VECTORS)
    with code.loop(whole(0), columns, 4, zeros) as (column, sums, found):
        weights = code.at(matrix, column, OUTPUTS)
        four_by_16 = [code.read_on(INTS, weights, whole(number), 64, align=64) for number in range(VECTORS)]
        for place in rows:
            four = code.spread(code.read(I32, place, column, 1, align=4))
            for weight in four_by_16:
                before = sums[len(found)]
                found.append(code.instruction("llvm.x86.avx512.vpdpbusd.512", INTS, before, four, weight))
    return [found[start : start + VECTORS] for start in range(0, len(found), VECTORS)]


def _finish(code: Code, fields: Fields, tile: Value, row: Value, sums: list[list[Value]], bits: int) -> None:
    """sum * scale * step + bias, each rounded to float32, and the outcome to the output's format."""
    for number in range(VECTORS):
        outputs = code.add(code.mul(tile, whole(OUTPUTS)), whole(number * LANES))
        zero = code.read(INTS, fields["zero"], outputs, 4, align=4)
        scale, bias = (code.read(FLOATS, fields[name], outputs, 4, align=4) for name in ("scale", "bias"))
        for offset, row_sums in enumerate(sums):
            at = code.add(row, whole(offset))
            total = code.sitofp(code.sub(row_sums[number], zero), FLOATS)
            step = code.spread(code.read(F32, fields["steps"], at, 4, align=4))
            value = code.fadd(code.fmul(code.fmul(total, scale), step), bias)
            place = code.at(fields["output"], code.add(code.mul(at, fields["width"]), outputs), bits // 8)
            code.store(code.as_bfloat16(value) if bits == 16 else value, place, align=2)
