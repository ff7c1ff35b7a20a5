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
    Form,
    Program,
    Value,
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
    form = Form(fields["columns"], OUTPUTS, step=4, rows=ROWS, kind=INTS)
    code.tiles(fields, form, partial(_sums, code, fields), partial(_finish, code, fields, bits))


def _sums(
    code: Code, fields: Fields, matrix: Value, row: Value, count: int, columns: tuple[Value, Value], before: list[Value]
) -> list[Value]:
    """As `machine_code.Add`."""
    rows = [
        code.at(fields["integers"], code.mul(code.add(row, whole(number)), fields["columns"]), 1)
        for number in range(count)
    ]
    with code.loop(*columns, 4, before) as (column, sums, found):
        weights = code.at(matrix, column, OUTPUTS)
        four_by_16 = [code.read_on(INTS, weights, whole(number), 64, align=64) for number in range(VECTORS)]
        for place in rows:
            four = code.spread(code.read(I32, place, column, 1, align=4))
            for weight in four_by_16:
                total = sums[len(found)]
                found.append(code.instruction("llvm.x86.avx512.vpdpbusd.512", INTS, total, four, weight))
    return found


def _finish(code: Code, fields: Fields, bits: int, tile: Value, row: Value, sums: list[Value]) -> None:
    """sum * scale * step + bias, each rounded to float32, and the outcome to the output's format."""
    step = code.spread(code.read(F32, fields["steps"], row, 4, align=4))
    for number, total in enumerate(sums):
        outputs = code.add(code.mul(tile, whole(OUTPUTS)), whole(number * LANES))
        zero = code.read(INTS, fields["zero"], outputs, 4, align=4)
        scale, bias = (code.read(FLOATS, fields[name], outputs, 4, align=4) for name in ("scale", "bias"))
        value = code.fadd(code.fmul(code.fmul(code.sitofp(code.sub(total, zero), FLOATS), scale), step), bias)
        place = code.at(fields["output"], code.add(code.mul(row, fields["width"]), outputs), bits // 8)
        code.store(code.as_bfloat16(value) if bits == 16 else value, place, align=2)
