"""The machine code of int8 layers: the digits of rows, and their products with a matrix.

AVX-512 VNNI's `vpdpbusd` multiplies 64 bytes by 64 bytes and adds each four products to one of 16 sums of 32 bits. The
code keeps `ROWS` rows by `OUTPUTS` outputs of sums in registers, and reads every weight once for all of them.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from decoder.model.linear.digit_product import RADIX, SMALLEST, STEPS
from decoder.model.linear.integer_product import ZERO
from decoder.model.linear.machine_code import (
    F32,
    FLOATS,
    I8,
    I16,
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

ROWS = 3
"""Rows of a tile: two digits each, by VECTORS registers of sums, are 24 of 32 registers."""

DIGIT_FIELDS = ("source", "columns", "rows", "digits", "low", "steps", "counter")
"""Rows [rows, columns] become digits + ZERO, uint8 [rows, columns], the low ones `low` bytes behind, and steps."""
PRODUCT_FIELDS = (
    "digits", "columns", "rows", "low", "steps", "matrix", "scale", "bias", "zero", "output", "width", "tiles",
    "share", "counter",
)  # fmt: skip
"""Digits by a matrix of `tiles` times OUTPUTS outputs; a thread takes `share` tiles at once. `zero` is what ZERO adds
to a digit's sum. The output has rows of `width` numbers."""
_POINTERS = frozenset({"source", "digits", "steps", "matrix", "scale", "bias", "zero", "output"})

Fields = dict[str, Value]


def program() -> Program:
    """The functions `digits_B` and `product_B`, for rows and outputs of B bits: 16 (bfloat16) or 32 (float32)."""
    made = Program()
    for bits in (16, 32):
        made.add(f"digits_{bits}", DIGIT_FIELDS, _POINTERS, partial(_digits, bits=bits))
        made.add(f"product_{bits}", PRODUCT_FIELDS, _POINTERS, partial(_product, bits=bits))
    return made


def _digits(code: Code, fields: Fields, bits: int) -> None:
    """A row at a time, as `digits_of` has it."""
    columns = fields["columns"]
    with code.shared(fields["counter"], whole(1), fields["rows"]) as (first, _):
        place = code.mul(first, columns)
        source = code.at(fields["source"], place, bits // 8)
        with code.loop(whole(0), columns, LANES, [vector(INTS, 0)]) as (column, (most,), found):
            # bits of magnitudes have the order of the magnitudes, and those of what is no number come last
            magnitude = code.and_(_as_float32(code, source, column, bits), vector(INTS, 0x7FFFFFFF))
            found.append(code.instruction("llvm.umax.v16i32", INTS, magnitude, most))
        largest = code.bitcast(code.instruction("llvm.vector.reduce.umax.v16i32", I32, found[0]), F32)
        smallest = ir.Constant(F32, SMALLEST)
        largest = code.select(code.fcmp_ordered("<", largest, smallest), smallest, largest)
        step = code.fdiv(largest, ir.Constant(F32, STEPS))
        code.store(step, code.at(fields["steps"], first, 4))
        steps, high_place = code.spread(step), code.at(fields["digits"], place, 1)
        low_place = code.at(high_place, fields["low"], 1)
        with code.loop(whole(0), columns, LANES, []) as (column, _, _):
            row = code.bitcast(_as_float32(code, source, column, bits), FLOATS)
            integers = code.instruction("llvm.roundeven.v16f32", FLOATS, code.fdiv(row, steps))
            upper = code.fmul(integers, vector(FLOATS, 1.0 / RADIX))
            high = code.instruction("llvm.roundeven.v16f32", FLOATS, upper)
            low = code.fsub(integers, code.fmul(high, vector(FLOATS, float(RADIX))))
            for digit, digits in ((high, high_place), (low, low_place)):
                unsigned = code.fadd(digit, vector(FLOATS, float(ZERO)))
                stored = code.instruction("llvm.fptosi.sat.v16i32.v16f32", INTS, unsigned)
                code.store(code.trunc(stored, ir.VectorType(I8, LANES)), code.at(digits, column, 1), align=1)


def _as_float32(code: Code, source: Value, column: Value, bits: int) -> Value:
    """The bits of 16 numbers as float32, read from `bits` each."""
    if bits == 32:
        return code.read(INTS, source, column, 4, align=4)
    halves = code.read(ir.VectorType(I16, LANES), source, column, 2, align=2)
    return code.shl(code.zext(halves, INTS), vector(INTS, 16))


def _product(code: Code, fields: Fields, bits: int) -> None:
    def tile(number: Value, row: Value, count: int) -> None:
        _finish(code, fields, number, row, _sums(code, fields, number, row, count), bits)

    code.tiles(fields, ROWS, tile)


def _sums(code: Code, fields: Fields, tile: Value, row: Value, count: int) -> list[list[Value]]:
    """Sums of `count` rows' digits, [2 * count][VECTORS]: a row's high digits before its low ones."""
    columns = fields["columns"]
    matrix = code.at(fields["matrix"], code.mul(tile, columns), OUTPUTS)
    digits = []
    for number in range(count):
        high = code.at(fields["digits"], code.mul(code.add(row, whole(number)), columns), 1)
        digits += [high, code.at(high, fields["low"], 1)]
    zeros = [vector(INTS, 0)] * (len(digits) * VECTORS)
    with code.loop(whole(0), columns, 4, zeros) as (column, sums, found):
        weights = code.at(matrix, column, OUTPUTS)
        four_by_16 = [code.read(INTS, weights, whole(number), 64, align=64) for number in range(VECTORS)]
        for place in digits:
            four = code.spread(code.read(I32, place, column, 1, align=4))
            for weight in four_by_16:
                before = sums[len(found)]
                found.append(code.instruction("llvm.x86.avx512.vpdpbusd.512", INTS, before, four, weight))
    return [found[start : start + VECTORS] for start in range(0, len(found), VECTORS)]


def _finish(code: Code, fields: Fields, tile: Value, row: Value, sums: list[list[Value]], bits: int) -> None:
    """(high * RADIX + low) * scale * step + bias, each rounded to float32, and the outcome to the output's format."""
    for number in range(VECTORS):
        outputs = code.add(code.mul(tile, whole(OUTPUTS)), whole(number * LANES))
        zero = code.read(INTS, fields["zero"], outputs, 4, align=4)
        scale, bias = (code.read(FLOATS, fields[name], outputs, 4, align=4) for name in ("scale", "bias"))
        for offset in range(len(sums) // 2):
            at = code.add(row, whole(offset))
            digits = sums[2 * offset : 2 * offset + 2]
            high, low = (code.sitofp(code.sub(digit[number], zero), FLOATS) for digit in digits)
            total = code.fadd(code.fmul(high, vector(FLOATS, float(RADIX))), low)
            step = code.spread(code.read(F32, fields["steps"], at, 4, align=4))
            value = code.fadd(code.fmul(code.fmul(total, scale), step), bias)
            place = code.at(fields["output"], code.add(code.mul(at, fields["width"]), outputs), bits // 8)
            code.store(code.as_bfloat16(value) if bits == 16 else value, place, align=2)
