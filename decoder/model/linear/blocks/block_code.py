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

from decoder.model.linear.blocks.block_matrix import FOUR, group_bytes, integer_bytes, record_bytes, span_bytes
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
    Form,
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
ROWS = 3
"""Most rows of a tile: of 2 to 6 the fastest number for 8 rows and more."""
_LINE = 64
"""Bytes that memory gives at once."""
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
    product = _Product(code, fields, kind, bits, vnni)
    form = Form(product.blocks, record_bytes(kind), step=1, rows=ROWS, kind=FLOATS)
    code.tiles(fields, form, product.sums, product.write)


class _Product:
    """Writes the body of one function."""

    def __init__(self, code: Code, fields: Fields, kind: BlockFormat, bits: int, vnni: bool) -> None:
        self.code, self.fields, self.kind, self.bits, self.vnni = code, fields, kind, bits, vnni
        self.group = GROUP[kind]
        self.record = record_bytes(kind)
        self.blocks, self.spans = (code.sdiv(fields["columns"], whole(size)) for size in (BLOCK, SPAN))

    def sums(
        self, matrix: Value, row: Value, count: int, blocks: tuple[Value, Value], before: list[Value]
    ) -> list[Value]:
        """As `machine_code.Add`."""
        code = self.code
        rows = [code.add(row, whole(offset)) for offset in range(count)]
        with code.loop(*blocks, 1, before) as (block, totals, found):
            found.extend(self._block(code.at(matrix, block, self.record), block, rows, totals))
        return found

    def _block(self, record: Value, block: Value, rows: list[Value], before: list[Value]) -> list[Value]:
        """Totals with a block's products added, float32, of each row and its vectors."""
        code, count = self.code, len(before)
        zeros = [vector(FLOATS, 0.0)] * (2 * count if self.kind == "Q4_K" else count)
        with code.loop(whole(0), whole(BLOCK // SPAN), 1, zeros) as (place, values, found):
            start = code.at(record, place, span_bytes(self.kind))
            span = code.add(code.mul(block, whole(BLOCK // SPAN)), place)
            found.extend(self._in_steps(self._span(start, span, rows), span, rows, values[:count]))
            if self.kind == "Q4_K":
                found.extend(self._in_steps(self._minima(start, span, rows), span, rows, values[count:]))
        floats = code.at(record, whole(BLOCK // SPAN), span_bytes(self.kind))
        totals = before
        if self.kind == "Q4_K":
            totals = self._add([code.fneg(value) for value in found[count:]], self._floats(floats, 1), before)
        return self._add(found[:count], self._floats(floats, 0), totals)

    def _span(self, start: Value, span: Value, rows: list[Value]) -> list[Value]:
        """Sums of a span's products times their scales, of each row and its vectors."""
        code = self.code
        zeros = [vector(INTS, 0)] * (len(rows) * VECTORS)
        with code.loop(whole(0), whole(SPAN // self.group), 1, zeros) as (number, before, found):
            group = code.add(code.mul(span, whole(SPAN // self.group)), number)
            integers = code.at(start, number, group_bytes(self.kind))
            products = self._group(integers, group, rows)
            scales = self._scales(code.at(integers, whole(integer_bytes(self.kind)), 1))
            pairs = zip(products, scales * len(rows), before, strict=True)
            found.extend(code.add(total, code.mul(product, scale)) for product, scale, total in pairs)
        return found

    def _minima(self, start: Value, span: Value, rows: list[Value]) -> list[Value]:
        """Sums of a span's minima times sums of the row's integers; a span is a pair of groups."""
        code = self.code
        sums: list[Value] = []
        start = code.at(start, whole(SPAN // self.group), group_bytes(self.kind))
        read = [self._part(_HALF_BYTES, start, part, 2 * LANES) for part in range(VECTORS)]
        minima = [code.zext(one, _SHORTS) for one in read]
        for row in rows:
            pair = code.read(I32, self.fields["sums"], code.add(code.mul(row, self.spans), span), 4, align=4)
            pair = code.bitcast(code.spread(pair), _SHORTS)
            sums.extend(self._dot_pairs(vector(INTS, 0), minimum, pair) for minimum in minima)
        return sums

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

    def _floats(self, start: Value, number: int) -> list[Value]:
        """`d`, or `dmin` behind it, of each vector."""
        start = self.code.at(start, whole(number), 2 * OUTPUTS)
        parts = [self._part(_HALVES, start, part, 2 * LANES) for part in range(VECTORS)]
        return [self.code.fpext(part, FLOATS) for part in parts]

    def _part(self, kind: ir.Type, start: Value, part: int, size: int) -> Value:
        """One of the vectors of `size` bytes that are next to each other."""
        place = self.code.at(start, whole(part), size)
        if part * size % _LINE == 0:
            self.code.ask(place)
        return self.code.load(place, align=size, typ=kind)

    def _group(self, start: Value, group: Value, rows: list[Value]) -> list[Value]:
        """Sums of a group's products, of each row and its vectors."""
        if self.kind == "Q6_K":
            return self._six_bits(start, group, rows)
        code = self.code
        zeros = [vector(INTS, 0)] * (len(rows) * VECTORS)
        with code.loop(whole(0), whole(self.group // FOUR // 2), 1, zeros) as (pair, before, found):
            halves = [self._halves(both) for both in self._line(start, pair)]
            column = code.add(code.mul(group, whole(self.group)), code.mul(pair, whole(2 * FOUR)))
            found.extend(self._products(halves, column, rows, before))
        return found

    def _six_bits(self, start: Value, group: Value, rows: list[Value]) -> list[Value]:
        """As `_group`, without `MIDDLE` times the sum of the row's integers, with which sums begin."""
        code, bits = self.code, vector(INTS, 0x30303030)
        sums: list[Value] = []
        for row in rows:
            at = code.add(code.mul(row, code.mul(self.spans, whole(SPAN // self.group))), group)
            total = code.sext(code.read(I16, self.fields["sums"], at, 2, align=2), I32)
            sums.extend([code.spread(code.mul(total, ir.Constant(I32, -MIDDLE)))] * VECTORS)
        rest = self._line(start, whole(0))
        for pair in range(2):
            lower, upper = zip(*(self._halves(both) for both in self._line(start, whole(1 + pair))), strict=True)
            if pair == 0:
                moved = [[code.shl(bits_of, vector(INTS, by)) for bits_of in rest] for by in (4, 2)]
            else:
                moved = [rest, [code.lshr(bits_of, vector(INTS, 2)) for bits_of in rest]]
            first, second = (
                [code.or_(low, code.and_(high, bits)) for low, high in zip(lows, highs, strict=True)]
                for lows, highs in zip((lower, upper), moved, strict=True)
            )
            column = code.add(code.mul(group, whole(self.group)), whole(pair * 2 * FOUR))
            sums = self._products(list(zip(first, second, strict=True)), column, rows, sums)
        return sums

    def _line(self, start: Value, number: Value) -> list[Value]:
        """The bytes of four or eight columns, of each vector."""
        start = self.code.at(start, number, FOUR * OUTPUTS)
        return [self._part(INTS, start, part, FOUR * LANES) for part in range(VECTORS)]

    def _products(
        self, weights: list[tuple[Value, Value]], column: Value, rows: list[Value], before: list[Value]
    ) -> list[Value]:
        """before + the products of twice four columns from `column` on."""
        code, sums = self.code, list(before)
        for second in range(2):
            for place, row in enumerate(rows):
                at = code.add(code.mul(row, self.fields["columns"]), code.add(column, whole(second * FOUR)))
                numbers = code.spread(code.read(I32, self.fields["integers"], at, 1, align=4))
                for part, both in enumerate(weights):
                    which = place * VECTORS + part
                    sums[which] = self._dot(sums[which], both[second], numbers)
        return sums

    def _halves(self, both: Value) -> tuple[Value, Value]:
        """The lower and the upper four bits of bytes."""
        code = self.code
        low = vector(INTS, 0x0F0F0F0F)
        return code.and_(both, low), code.and_(code.lshr(both, vector(INTS, 4)), low)

    def _scales(self, start: Value) -> list[Value]:
        """Scales of a group, of each vector."""
        parts = [self._part(ir.VectorType(I8, LANES), start, part, LANES) for part in range(VECTORS)]
        widened = self.code.zext if self.kind == "Q4_K" else self.code.sext
        return [widened(part, INTS) for part in parts]

    def write(self, tile: Value, row: Value, sums: list[Value]) -> None:
        """Sums + bias, rounded to the output's format."""
        code, fields = self.code, self.fields
        for number, total in enumerate(sums):
            outputs = code.add(code.mul(tile, whole(OUTPUTS)), whole(number * LANES))
            value = code.fadd(total, code.read(FLOATS, fields["bias"], outputs, 4, align=4))
            place = code.at(fields["output"], code.add(code.mul(row, fields["width"]), outputs), self.bits // 8)
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
