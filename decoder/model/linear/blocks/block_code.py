"""The machine code of layers of blocks: products of rows of integers with a matrix of integers of four or six bits.

A group of weights shares a scale, so its sum of products is an integer, which is multiplied by the scale, also an
integer; the sums of a span of 64 columns are exact, and become float32 once. What is taken from all integers of a
group (its minimum) is multiplied by the sum of the row's integers. Spans are added in their order.

With AVX-512 VNNI, `vpdpbusd` adds four products to one of 16 sums; with AVX2, two instructions do, in 16 bits first,
which hold the sum of two products of numbers below 64 and 128.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from decoder.model.linear.blocks.block_matrix import FOUR, group_bytes, head_bytes, pairs_bytes, record_bytes
from decoder.model.linear.blocks.block_rows import LARGEST, SMALLEST, SPAN
from decoder.model.linear.blocks.file_blocks import BLOCK, GROUP, MIDDLE
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
from decoder.weights.gguf_blocks import BlockFormat

FIELDS = (
    "integers", "sums", "steps", "columns", "rows", "matrix", "bias", "output", "width", "tiles", "share", "counter",
)  # fmt: skip
"""int8 [rows, columns], sums int16 [rows, columns / group], steps float32 [rows, columns / 64], by the records of
`block_matrix.py`, [tiles, columns / 256]. The output has rows of `width` numbers."""
ROUND_FIELDS = ("source", "columns", "rows", "integers", "sums", "steps", "counter")
"""Rows [rows, columns] -> int8 [rows, columns], int16 [rows, columns / group], float32 [rows, columns / 64]."""
_POINTERS = frozenset({"source", "integers", "sums", "steps", "matrix", "bias", "output"})
_WHOLE = 1.5 * 2**23
"""A number that is added to this is rounded to the nearest integer, ties to even, and stands in the lower bits."""
_WHOLE_BITS = 0x4B400000
ROWS = 4
"""Most rows of a tile: the fastest number of 2 to 6. With more, sums leave the registers."""
_HALF_INTS = ir.VectorType(I32, LANES // 2)
_HALF_BYTES = ir.VectorType(I8, 2 * LANES)
_SHORTS, _HALF_SHORTS = ir.VectorType(I16, 2 * LANES), ir.VectorType(I16, LANES)
_HALVES = ir.VectorType(ir.HalfType(), LANES)

Fields = dict[str, Value]


def program(bits: int, vnni: bool) -> Program:
    """The functions `product_F`, for blocks of format F, and `round_G`, for groups of G columns.

    Args:
        bits: of rows and outputs: 16 (bfloat16) or 32 (float32).
        vnni: whether the processor has AVX-512 VNNI.
    """
    made = Program()
    for kind, group in GROUP.items():
        made.add(f"product_{kind}", FIELDS, _POINTERS, partial(_product, kind=kind, bits=bits, vnni=vnni))
        made.add(f"round_{group}", ROUND_FIELDS, _POINTERS, partial(_round, group=group, bits=bits))
    return made


def _round(code: Code, fields: Fields, group: int, bits: int) -> None:
    columns = fields["columns"]
    spans, groups = code.sdiv(columns, whole(SPAN)), code.sdiv(columns, whole(group))
    with (
        code.shared(fields["counter"], whole(1), fields["rows"]) as (row, _),
        code.loop(whole(0), spans, 1, []) as (span, _, _),
    ):
        place = code.add(code.mul(row, columns), code.mul(span, whole(SPAN)))
        source = code.at(fields["source"], place, bits // 8)
        vectors, most = [], vector(INTS, 0)
        for start in range(0, SPAN, LANES):
            number = code.as_float32_bits(source, whole(start), bits)
            # bits of magnitudes have the order of the magnitudes
            most = code.instruction("llvm.umax.v16i32", INTS, code.and_(number, vector(INTS, 0x7FFFFFFF)), most)
            vectors.append(code.bitcast(number, FLOATS))
        found = code.bitcast(code.instruction("llvm.vector.reduce.umax.v16i32", I32, most), F32)
        least = ir.Constant(F32, SMALLEST)
        found = code.select(code.fcmp_ordered("<", found, least), least, found)
        step = code.fdiv(found, ir.Constant(F32, float(LARGEST)))
        code.store(step, code.at(fields["steps"], code.add(code.mul(row, spans), span), 4))
        per_step = code.spread(code.fdiv(ir.Constant(F32, 1.0), step))
        integers = code.at(fields["integers"], place, 1)
        sums = code.at(fields["sums"], code.add(code.mul(row, groups), code.mul(span, whole(SPAN // group))), 2)
        whole_bits = vector(INTS, _WHOLE_BITS)
        kept = []
        for number, exact in enumerate(vectors):
            stored = code.bitcast(code.fadd(code.fmul(exact, per_step), vector(FLOATS, _WHOLE)), INTS)
            code.store(
                code.trunc(stored, ir.VectorType(I8, LANES)), code.at(integers, whole(number * LANES), 1), align=1
            )
            kept.append(code.sub(stored, whole_bits))
        for number in range(SPAN // group):
            part = kept[number * group // LANES : (number + 1) * group // LANES]
            total = part[0] if len(part) == 1 else code.add(*part)
            total = code.instruction("llvm.vector.reduce.add.v16i32", I32, total)
            code.store(code.trunc(total, I16), code.at(sums, whole(number), 2), align=2)


def _product(code: Code, fields: Fields, kind: BlockFormat, bits: int, vnni: bool) -> None:
    code.tiles(fields, ROWS, _Product(code, fields, kind, bits, vnni).tile)


class _Product:
    """Writes the body of one function."""

    def __init__(self, code: Code, fields: Fields, kind: BlockFormat, bits: int, vnni: bool) -> None:
        self.code, self.fields, self.kind, self.bits, self.vnni = code, fields, kind, bits, vnni
        self.group = GROUP[kind]
        self.record = record_bytes(kind)
        self.blocks, self.spans = (code.sdiv(fields["columns"], whole(size)) for size in (BLOCK, SPAN))

    def tile(self, tile: Value, row: Value, count: int) -> None:
        """All blocks of a tile of outputs."""
        code = self.code
        rows = [code.add(row, whole(offset)) for offset in range(count)]
        start = code.at(self.fields["matrix"], code.mul(tile, self.blocks), self.record)
        with code.loop(whole(0), self.blocks, 1, [vector(FLOATS, 0.0)] * (count * VECTORS)) as (block, before, found):
            found.extend(self._block(code.at(start, block, self.record), block, rows, before))
        for place, total in enumerate(found):
            self._write(tile, rows[place // VECTORS], place % VECTORS, total)

    def _block(self, record: Value, block: Value, rows: list[Value], before: list[Value]) -> list[Value]:
        """Totals with a block's products added, float32, of each row and its vectors."""
        code = self.code
        groups = code.at(record, whole(head_bytes(self.kind)), 1)
        count, steps = SPAN // self.group, [vector(FLOATS, 0.0)] * len(before)
        totals = self._less(record, block, rows, before) if self.kind == "Q4_K" else before
        with code.loop(whole(0), whole(BLOCK // SPAN), 1, steps) as (place, values, found):
            span = code.add(code.mul(block, whole(BLOCK // SPAN)), place)
            sums, scales = [vector(INTS, 0)] * len(before), []
            for group in range(count):
                at = code.at(groups, code.add(code.mul(place, whole(count)), whole(group)), group_bytes(self.kind))
                scales.append([self._scale(at, part) for part in range(VECTORS)])
                products = zip(self._group(at, span, group, rows), scales[-1] * len(rows), strict=True)
                sums = [code.add(total, code.mul(*pair)) for total, pair in zip(sums, products, strict=True)]
            if self.kind == "Q6_K":
                sums = self._less_middle(sums, scales, span, rows)
            found.extend(self._in_steps(sums, span, rows, values))
        return self._add(found, self._floats(record, 0), totals)

    def _less_middle(self, sums: list[Value], scales: list[list[Value]], span: Value, rows: list[Value]) -> list[Value]:
        """Sums without `MIDDLE` times the scales times the sums of the row's integers."""
        code, lesser = self.code, [vector(INTS, 0)] * len(sums)
        low, half = vector(INTS, 0xFFFF), vector(INTS, 16)
        for number in range(len(scales) // 2):
            both = zip(*scales[2 * number : 2 * number + 2], strict=True)
            pairs = [code.bitcast(code.or_(code.and_(one, low), code.shl(other, half)), _SHORTS) for one, other in both]
            for place, row in enumerate(rows):
                at = code.mul(code.add(code.mul(row, self.spans), span), whole(len(scales) // 2))
                row_sums = code.spread(code.read(I32, self.fields["sums"], code.add(at, whole(number)), 4, align=4))
                for part, pair in enumerate(pairs):
                    which = place * VECTORS + part
                    lesser[which] = self._dot_pairs(lesser[which], pair, code.bitcast(row_sums, _SHORTS))
        return [code.sub(total, code.mul(less, vector(INTS, MIDDLE))) for total, less in zip(sums, lesser, strict=True)]

    def _less(self, record: Value, block: Value, rows: list[Value], before: list[Value]) -> list[Value]:
        """Totals without what a block's minima take, times sums of the row's integers; a span is a pair of groups."""
        code, lesser = self.code, [vector(FLOATS, 0.0)] * len(before)
        for number in range(BLOCK // SPAN):
            span = code.add(code.mul(block, whole(BLOCK // SPAN)), whole(number))
            start = code.at(record, whole(number * 2 * OUTPUTS), 1)
            read = [code.read(_HALF_BYTES, start, whole(part * 2 * LANES), 1, align=32) for part in range(VECTORS)]
            minima = [code.zext(one, _SHORTS) for one in read]
            sums: list[Value] = []
            for row in rows:
                pair = code.read(I32, self.fields["sums"], code.add(code.mul(row, self.spans), span), 4, align=4)
                pair = code.bitcast(code.spread(pair), _SHORTS)
                sums.extend(self._dot_pairs(vector(INTS, 0), minimum, pair) for minimum in minima)
            lesser = self._in_steps(sums, span, rows, lesser)
        return self._add([code.fneg(value) for value in lesser], self._floats(record, 2 * OUTPUTS), before)

    def _in_steps(self, sums: list[Value], span: Value, rows: list[Value], before: list[Value]) -> list[Value]:
        """before + sums of integers times the rows' steps of a span."""
        code, found = self.code, []
        for place, row in enumerate(rows):
            step = code.read(F32, self.fields["steps"], code.add(code.mul(row, self.spans), span), 4, align=4)
            for which in range(place * VECTORS, (place + 1) * VECTORS):
                value = code.sitofp(sums[which], FLOATS)
                found.append(code.instruction("llvm.fma.v16f32", FLOATS, value, code.spread(step), before[which]))
        return found

    def _add(self, values: list[Value], factors: list[Value], before: list[Value]) -> list[Value]:
        """before + values times the factor of each vector."""
        pairs = zip(values, factors * (len(values) // VECTORS), before, strict=True)
        return [self.code.instruction("llvm.fma.v16f32", FLOATS, *three) for three in pairs]

    def _floats(self, record: Value, offset: int) -> list[Value]:
        """`d`, or `dmin` behind it, of each vector."""
        start = pairs_bytes(self.kind) + offset
        places = [whole(start + part * 2 * LANES) for part in range(VECTORS)]
        return [self.code.fpext(self.code.read(_HALVES, record, place, 1, align=32), FLOATS) for place in places]

    def _group(self, start: Value, span: Value, group: int, rows: list[Value]) -> list[Value]:
        """Sums of a group's products, of each row and its vectors."""
        code = self.code
        sums = [vector(INTS, 0)] * (len(rows) * VECTORS)
        for pair in range(self.group // FOUR // 2):
            weights = [self._weights(start, pair, part) for part in range(VECTORS)]
            for second in range(2):
                column = code.add(code.mul(span, whole(SPAN)), whole(group * self.group + (2 * pair + second) * FOUR))
                for place, row in enumerate(rows):
                    at = code.add(code.mul(row, self.fields["columns"]), column)
                    numbers = code.spread(code.read(I32, self.fields["integers"], at, 1, align=4))
                    for part, both in enumerate(weights):
                        which = place * VECTORS + part
                        sums[which] = self._dot(sums[which], both[second], numbers)
        return sums

    def _weights(self, start: Value, pair: int, number: int) -> tuple[Value, Value]:
        """Integers of 16 outputs, of twice four columns of a group."""
        code = self.code

        def read(place: int) -> Value:
            return code.read_on(INTS, start, whole(1 + place * VECTORS + number), OUTPUTS, align=64)

        if self.kind == "Q4_K":
            return self._halves(read(pair))
        rest = read(0)
        lower, upper = self._halves(read(1 + pair))
        bits = vector(INTS, 0x30303030)
        if pair == 0:
            first, second = code.shl(rest, vector(INTS, 4)), code.shl(rest, vector(INTS, 2))
        else:
            first, second = rest, code.lshr(rest, vector(INTS, 2))
        return code.or_(lower, code.and_(first, bits)), code.or_(upper, code.and_(second, bits))

    def _halves(self, both: Value) -> tuple[Value, Value]:
        """The lower and the upper four bits of bytes."""
        code = self.code
        low = vector(INTS, 0x0F0F0F0F)
        return code.and_(both, low), code.and_(code.lshr(both, vector(INTS, 4)), low)

    def _scale(self, start: Value, number: int) -> Value:
        """Scales of 16 outputs of a group."""
        code = self.code
        read = code.read(ir.VectorType(I8, LANES), start, whole(number * LANES), 1, align=16)
        return code.zext(read, INTS) if self.kind == "Q4_K" else code.sext(read, INTS)

    def _write(self, tile: Value, at: Value, number: int, total: Value) -> None:
        code, fields = self.code, self.fields
        outputs = code.add(code.mul(tile, whole(OUTPUTS)), whole(number * LANES))
        value = code.fadd(total, code.read(FLOATS, fields["bias"], outputs, 4, align=4))
        place = code.at(fields["output"], code.add(code.mul(at, fields["width"]), outputs), self.bits // 8)
        code.store(code.as_bfloat16(value) if self.bits == 16 else value, place, align=2)

    def _dot(self, before: Value, weights: Value, numbers: Value) -> Value:
        """before + the sums of four products each of unsigned weights and signed numbers, [16, 4] bytes both."""
        code = self.code
        if self.vnni:
            return code.instruction("llvm.x86.avx512.vpdpbusd.512", INTS, before, weights, numbers)
        ones = ir.Constant(_HALF_SHORTS, [ir.Constant(I16, 1)] * LANES)

        def half(unsigned: Value, signed: Value) -> Value:
            unsigned, signed = (code.bitcast(value, _HALF_BYTES) for value in (unsigned, signed))
            pairs = code.instruction("llvm.x86.avx2.pmadd.ub.sw", _HALF_SHORTS, unsigned, signed)
            return code.instruction("llvm.x86.avx2.pmadd.wd", _HALF_INTS, pairs, ones)

        return code.add(before, self._in_halves(half, weights, numbers))

    def _dot_pairs(self, before: Value, first: Value, second: Value) -> Value:
        """before + the sums of two products each, [16, 2] numbers of 16 bits both."""
        code = self.code
        if self.vnni:
            both = (code.bitcast(one, INTS) for one in (first, second))
            return code.instruction("llvm.x86.avx512.vpdpwssd.512", INTS, before, *both)

        def half(one: Value, other: Value) -> Value:
            one, other = (code.bitcast(value, _HALF_SHORTS) for value in (one, other))
            return code.instruction("llvm.x86.avx2.pmadd.wd", _HALF_INTS, one, other)

        return code.add(before, self._in_halves(half, code.bitcast(first, INTS), code.bitcast(second, INTS)))

    def _in_halves(self, half: Callable[[Value, Value], Value], first: Value, second: Value) -> Value:
        code = self.code
        parts = []
        for start in (0, LANES // 2):
            lanes = ir.Constant(_HALF_INTS, [ir.Constant(I32, start + lane) for lane in range(LANES // 2)])
            parts.append(half(code.shuffle_vector(first, first, lanes), code.shuffle_vector(second, second, lanes)))
        both = ir.Constant(INTS, [ir.Constant(I32, lane) for lane in range(LANES)])
        return code.shuffle_vector(*parts, both)
