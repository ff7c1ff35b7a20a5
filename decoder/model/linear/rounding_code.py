"""The machine code that rotates rows and rounds them to integers. It needs no instruction beyond AVX2; of AVX-512 it
takes registers twice as long."""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from decoder.model.linear.machine_code import (
    F32,
    FLOATS,
    I8,
    I32,
    INTS,
    LANES,
    Code,
    Program,
    Value,
    vector,
    whole,
)
from decoder.model.linear.rotation import BLOCKS

ROTATE_FIELDS = ("source", "columns", "rows", "rotated", "counter")
"""Rows [rows, columns] -> float32 [rows, columns]."""
ROUND_FIELDS = ("source", "columns", "rows", "rotated", "integers", "steps", "counter")
"""Rows [rows, columns] -> uint8 [rows, columns], integers + ZERO, and float32 [rows]; `rotated` holds what lies
between, float32 [rows, columns]."""
_WHOLE = 1.5 * 2**23
"""A number that is added to this is rounded to the nearest integer, ties to even, and stands in the lower bits."""
_POINTERS = frozenset({"source", "rotated", "integers", "steps"})

Fields = dict[str, Value]


def program(zero: int, largest: int, smallest: float) -> Program:
    """The functions `rotate_B_N` and `round_B_N`, for rows of B bits (16 is bfloat16) and blocks of N columns.

    Args:
        zero, largest, smallest: as in `rounding.py`.
    """
    made = Program()
    for bits in (16, 32):
        for block in BLOCKS:
            made.add(f"rotate_{bits}_{block}", ROTATE_FIELDS, _POINTERS, partial(_rotate, bits=bits, block=block))
            body = partial(_round, bits=bits, block=block, zero=zero, largest=largest, smallest=smallest)
            made.add(f"round_{bits}_{block}", ROUND_FIELDS, _POINTERS, body)
    return made


def _rotate(code: Code, fields: Fields, bits: int, block: int) -> None:
    with code.shared(fields["counter"], whole(1), fields["rows"]) as (row, _):
        _rotate_row(code, fields, row, bits, block, block**-0.5)


def _round(code: Code, fields: Fields, bits: int, block: int, zero: int, largest: int, smallest: float) -> None:
    columns, root = fields["columns"], block**0.5
    with code.shared(fields["counter"], whole(1), fields["rows"]) as (row, _):
        rotated, most = _rotate_row(code, fields, row, bits, block, 1.0)
        # bits of magnitudes have the order of the magnitudes, and those of what is no number come last
        found = code.bitcast(code.instruction("llvm.vector.reduce.umax.v16i32", I32, most), F32)
        found, least = code.fmul(found, ir.Constant(F32, 1 / root)), ir.Constant(F32, smallest)
        found = code.select(code.fcmp_ordered("<", found, least), least, found)
        step = code.fdiv(found, ir.Constant(F32, float(largest)))
        code.store(step, code.at(fields["steps"], row, 4))
        per_step = code.fdiv(ir.Constant(F32, 1.0), step)
        per_step = code.spread(code.fmul(per_step, ir.Constant(F32, 1 / root)))  # rows are not divided by the root
        integers = code.at(fields["integers"], code.mul(row, columns), 1)
        with code.loop(whole(0), columns, LANES, []) as (column, _, _):
            exact = code.fmul(code.read(FLOATS, rotated, column, 4, align=4), per_step)
            unsigned = code.bitcast(code.fadd(exact, vector(FLOATS, _WHOLE + zero)), INTS)
            code.store(code.trunc(unsigned, ir.VectorType(I8, LANES)), code.at(integers, column, 1), align=1)


def _rotate_row(code: Code, fields: Fields, row: Value, bits: int, block: int, factor: float) -> tuple[Value, Value]:
    """Writes a rotated row times a factor: its address, and the largest bits of its magnitudes in each lane."""
    columns = fields["columns"]
    place = code.mul(row, columns)
    source, rotated = code.at(fields["source"], place, bits // 8), code.at(fields["rotated"], place, 4)
    with code.loop(whole(0), columns, block, [vector(INTS, 0)]) as (start, (most,), found):
        places = [code.add(start, whole(number * LANES)) for number in range(block // LANES)]
        vectors = [code.bitcast(code.as_float32_bits(source, column, bits), FLOATS) for column in places]
        largest = most
        for column, turned in zip(places, _hadamard(code, vectors), strict=True):
            value = turned if factor == 1 else code.fmul(turned, vector(FLOATS, factor))
            code.store(value, code.at(rotated, column, 4), align=4)
            magnitude = code.and_(code.bitcast(value, INTS), vector(INTS, 0x7FFFFFFF))
            largest = code.instruction("llvm.umax.v16i32", INTS, magnitude, largest)
        found.append(largest)
    return rotated, found[0]


def _hadamard(code: Code, vectors: list[Value]) -> list[Value]:
    """A block as `rotation.rotated` turns it, with the same roundings: within registers, then between them."""
    apart = 1
    while apart < LANES:
        others = ir.Constant(INTS, [ir.Constant(I32, lane ^ apart) for lane in range(LANES)])
        signs = ir.Constant(FLOATS, [ir.Constant(F32, -1.0 if lane & apart else 1.0) for lane in range(LANES)])
        vectors = [
            code.instruction("llvm.fma.v16f32", FLOATS, one, signs, code.shuffle_vector(one, one, others))
            for one in vectors
        ]
        apart *= 2
    apart = 1
    while apart < len(vectors):
        turned = list(vectors)
        for number in range(len(vectors)):
            if not number & apart:
                first, second = vectors[number], vectors[number + apart]
                turned[number], turned[number + apart] = code.fadd(first, second), code.fsub(first, second)
        vectors = turned
        apart *= 2
    return vectors
