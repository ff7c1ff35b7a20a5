"""The machine code of attention along paths. It needs no instruction beyond AVX2 and FMA; of AVX-512 it takes registers
twice as long. Behind a layer's weights no key is in a cache, so memory is asked for the next ones meanwhile.

A query is a row of a head. A query's score with a key adds the products of their columns in order; its exponentials
are added, and multiplied with the values, in the order of its keys. So its outcome depends on its own path alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from decoder.model.linear.machine_code import F32, FLOATS, I32, I64, INTS, LANES, Code, Program, Value, vector, whole
from decoder.model.paths.exponentials import LEAST, LN2, LOG2E, SERIES, WHOLE
from decoder.model.paths.paths import KEYS

TOGETHER = 4
"""Most queries that share a loaded key or value."""
CHUNK = 4
"""Most registers of a query's output that are summed at once, so that those of all queries together fit."""
AHEAD = 32
"""Keys between that whose value the code reads and that whose value it asks memory for meanwhile."""
LINE = 64
"""Bytes that memory gives at once."""
FIELDS = (
    "query", "head_stride", "row_stride", "keys", "values", "kv_stride", "kv_heads", "groups", "queries",
    "shared", "path", "path_stride", "lengths", "scale",
    "scores", "score_stride", "work", "totals", "turned", "output", "stretch", "stretches", "counter",
)  # fmt: skip
"""Queries [head, row, dim] by their strides; keys and values [kv_heads, any, dim] with `kv_stride` numbers a head.
`queries` of a key head: rows times `groups`, row by row. Paths as in `paths.py`. `scale` are the bits of a float32.
Room for `scores` [kv_heads * queries, score_stride], `work` [kv_heads * queries, dim], `totals` [kv_heads * queries]
and `turned` [kv_heads * stretches, dim, KEYS], all float32. Output [rows, heads, dim]. A thread takes one of
`stretches` at once: `stretch` queries of a key head."""
POINTERS = frozenset({"query", "keys", "values", "path", "lengths", "scores", "work", "totals", "turned", "output"})
Fields = dict[str, Value]


def program(bits: int, dim: int) -> Program:
    """The function `attend`.

    Args:
        bits: of the numbers, 16 (bfloat16) or 32 (float32).
        dim: of a head, a multiple of 16.
    """
    made = Program()
    made.add("attend", FIELDS, POINTERS, partial(_attend, bits=bits, dim=dim))
    return made


def _attend(code: Code, f: Fields, bits: int, dim: int) -> None:
    units = code.mul(f["kv_heads"], f["stretches"])
    with code.shared(f["counter"], whole(1), units) as (unit, _):
        head = code.udiv(unit, f["stretches"])
        first = code.mul(code.urem(unit, f["stretches"]), f["stretch"])
        past = _least(code, code.add(first, f["stretch"]), f["queries"])
        turned = code.at(f["turned"], code.mul(unit, whole(dim)), 4 * KEYS)
        _Stretch(code, f, bits, dim, turned, head, first, past).write()


class _Stretch:
    """Writes the code for some queries [first, past) of a key head."""

    def __init__(
        self, code: Code, f: Fields, bits: int, dim: int, turned: Value, head: Value, first: Value, past: Value
    ) -> None:
        self.code, self.f, self.bits, self.size, self.dim = code, f, bits, bits // 8, dim
        self.turned, self.head, self.first, self.past = turned, head, first, past
        stride = code.mul(head, f["kv_stride"])
        self.keys, self.values = (code.at(f[name], stride, self.size) for name in ("keys", "values"))
        base = code.mul(head, f["queries"])
        self.scores = code.at(f["scores"], code.mul(base, f["score_stride"]), 4)
        self.work = code.at(f["work"], code.mul(base, whole(dim)), 4)
        self.totals = code.at(f["totals"], base, 4)
        self.scale = code.spread(code.bitcast(code.trunc(f["scale"], I32), F32))

    def write(self) -> None:
        code, f = self.code, self.f
        some = code.icmp_signed(">", f["shared"], whole(0))
        with code.loop(self.first, self.past, 1, []) as (query, _, _):
            self._convert(query)
        with code.if_then(some), code.loop(whole(0), f["shared"], KEYS, []) as (key, _, _):
            self._turn(lambda lane: code.add(key, whole(lane)))
            self._together(self.first, self.past, lambda query, count: self._score(query, count, key, None))
        self._paths()
        with code.loop(self.first, self.past, 1, []) as (query, _, _):
            self._weigh(query)
        self._together(self.first, self.past, lambda query, count: self._add_shared(query, count, some))
        with code.loop(self.first, self.past, 1, []) as (query, _, _):
            self._finish(query)

    def _row(self, query: Value) -> Value:
        return self.code.udiv(query, self.f["groups"])

    def _scores_of(self, query: Value) -> Value:
        return self.code.at(self.scores, self.code.mul(query, self.f["score_stride"]), 4)

    def _work_of(self, query: Value) -> Value:
        return self.code.at(self.work, query, 4 * self.dim)

    def _length(self, row: Value) -> Value:
        return self.code.read(I64, self.f["lengths"], row, 8, align=8)

    def _path(self, row: Value) -> Value:
        return self.code.at(self.f["path"], self.code.mul(row, self.f["path_stride"]), 8)

    def _convert(self, query: Value) -> None:
        """A query as float32."""
        code, f = self.code, self.f
        head = code.add(code.mul(self.head, f["groups"]), code.urem(query, f["groups"]))
        place = code.add(code.mul(head, f["head_stride"]), code.mul(self._row(query), f["row_stride"]))
        source, target = code.at(f["query"], place, self.size), self._work_of(query)
        for column in range(0, self.dim, LANES):
            number = whole(column)
            code.store(code.as_float32_bits(source, number, self.bits), code.at(target, number, 4), align=4)

    def _turn(self, key: Callable[[int], Value]) -> None:
        """`KEYS` keys as float32 [dim, KEYS], of which `key` gives the numbers."""
        code = self.code
        for half in range(0, KEYS, LANES):
            places = [code.at(self.keys, key(half + lane), self.dim * self.size) for lane in range(LANES)]
            with code.loop(whole(0), whole(self.dim), LANES, []) as (column, _, _):
                rows = [code.as_float32_bits(place, column, self.bits) for place in places]
                for number, turned in enumerate(_transposed(code, rows)):
                    at = code.add(code.mul(code.add(column, whole(number)), whole(KEYS)), whole(half))
                    code.store(turned, code.at(self.turned, at, 4), align=64)

    def _together(self, first: Value, past: Value, body: Callable[[Value, int], None]) -> None:
        """Code for up to `TOGETHER` queries at once: the first, and how many."""
        code = self.code
        with code.loop(first, past, TOGETHER, []) as (query, _, _):
            behind, *blocks = (code.append_basic_block() for _ in range(TOGETHER + 1))
            switch = code.switch(code.sub(past, query), blocks[-1])
            for count, block in enumerate(blocks, 1):
                if count < TOGETHER:
                    switch.add_case(whole(count), block)
                code.position_at_end(block)
                body(query, count)
                code.branch(behind)
            code.position_at_end(behind)

    def _score(self, query: Value, count: int, column: Value, left: Value | None) -> None:
        """Scores with the keys that are turned, from `column` on; only the first `left` count, unless all do."""
        code, parts = self.code, KEYS // LANES
        places = [self._work_of(code.add(query, whole(number))) for number in range(count)]
        zeros = [vector(FLOATS, 0.0)] * (count * parts)
        with code.loop(whole(0), whole(self.dim), 1, zeros) as (number, sums, found):
            if left is None:
                self._fetch_next(column, number)
            keys = code.at(self.turned, code.mul(number, whole(KEYS)), 4)
            vectors = [code.read(FLOATS, keys, whole(part * LANES), 4, align=64) for part in range(parts)]
            for place in places:
                value = code.spread(code.read(F32, place, number, 4, align=4))
                for one in vectors:
                    found.append(code.instruction("llvm.fma.v16f32", FLOATS, value, one, sums[len(found)]))
        for number in range(count):
            target = self._scores_of(code.add(query, whole(number)))
            for part in range(parts):
                score = code.fmul(found[number * parts + part], self.scale)
                if left is not None:
                    lanes = ir.Constant(INTS, [ir.Constant(I32, part * LANES + lane) for lane in range(LANES)])
                    inside = code.icmp_signed("<", lanes, code.spread(code.trunc(left, I32)))
                    score = code.select(inside, score, vector(FLOATS, float("-inf")))
                code.store(score, code.at(target, code.add(column, whole(part * LANES)), 4), align=4)

    def _fetch_next(self, key: Value, number: Value) -> None:
        """Asks memory for a part of the `KEYS` keys behind those from `key` on: that of this number, of `dim` parts."""
        code = self.code
        later = code.at(self.keys, code.mul(code.add(key, whole(KEYS)), whole(self.dim)), self.size)
        for column in range(0, KEYS, LINE // self.size):
            code.fetch(code.at(later, code.add(code.mul(number, whole(KEYS)), whole(column)), self.size))

    def _paths(self) -> None:
        """Scores with the keys of the rows' own paths."""
        code, f = self.code, self.f
        past_row = code.add(self._row(code.sub(self.past, whole(1))), whole(1))
        with code.loop(self._row(self.first), past_row, 1, []) as (row, _, _):
            start = code.mul(row, f["groups"])
            first, past = _most(code, start, self.first), _least(code, code.add(start, f["groups"]), self.past)
            length, path = self._length(row), self._path(row)
            with code.loop(whole(0), length, KEYS, []) as (place, _, _):
                self._turn(lambda lane: code.read(I64, path, code.add(place, whole(lane)), 8, align=8))
                column, left = code.add(f["shared"], place), code.sub(length, place)
                self._together(first, past, lambda query, count: self._score(query, count, column, left))

    def _weigh(self, query: Value) -> None:
        """Scores become exponentials, and their sum is kept."""
        code = self.code
        scores = self._scores_of(query)
        past = code.add(self.f["shared"], self._length(self._row(query)))
        with code.loop(whole(0), past, LANES, [vector(FLOATS, float("-inf"))]) as (key, (before,), found):
            score = code.read(FLOATS, scores, key, 4, align=4)
            found.append(code.select(code.fcmp_ordered(">", before, score), before, score))
        largest = code.spread(_folded(code, found[0], partial(_larger, code)))
        with code.loop(whole(0), past, LANES, [vector(FLOATS, 0.0)]) as (key, (before,), sums):
            place = code.at(scores, key, 4)
            weight = exponential(code, code.fsub(code.load(place, align=4, typ=FLOATS), largest))
            code.store(weight, place, align=4)
            sums.append(code.fadd(before, weight))
        code.store(_folded(code, sums[0], code.fadd), code.at(self.totals, query, 4), align=4)

    def _add_shared(self, query: Value, count: int, some: Value) -> None:
        """The values of the shared keys by their weights."""
        code = self.code
        queries = [code.add(query, whole(number)) for number in range(count)]
        works, weights = [self._work_of(one) for one in queries], [self._scores_of(one) for one in queries]
        for chunk in self._chunks():
            zeros = [vector(FLOATS, 0.0)] * (count * len(chunk))
            for work in works:
                for column in chunk:
                    code.store(zeros[0], code.at(work, whole(column), 4), align=4)
            with code.if_then(some):
                with code.loop(whole(0), self.f["shared"], 1, zeros) as (key, sums, found):
                    here = code.at(self.values, key, self.dim * self.size)
                    for column in range(chunk[0], chunk[-1] + LANES, LINE // self.size):
                        code.fetch(code.at(here, whole(column + AHEAD * self.dim), self.size))
                    values = self._values(key, chunk)
                    for place in weights:
                        weight = code.spread(code.read(F32, place, key, 4, align=4))
                        for value in values:
                            found.append(code.instruction("llvm.fma.v16f32", FLOATS, weight, value, sums[len(found)]))
                for number, work in enumerate(works):
                    for place, column in enumerate(chunk):
                        total = found[number * len(chunk) + place]
                        code.store(total, code.at(work, whole(column), 4), align=4)

    def _finish(self, query: Value) -> None:
        """The values of the path's keys by their weights, and the output."""
        code, f = self.code, self.f
        row, work = self._row(query), self._work_of(query)
        path, weights = self._path(row), code.at(self._scores_of(query), f["shared"], 4)
        total = code.spread(code.read(F32, self.totals, query, 4, align=4))
        head = code.add(code.mul(self.head, f["groups"]), code.urem(query, f["groups"]))
        heads = code.mul(f["kv_heads"], f["groups"])
        output = code.at(f["output"], code.add(code.mul(row, heads), head), self.dim * self.size)
        for chunk in self._chunks(2 * CHUNK):
            before = [code.read(FLOATS, work, whole(column), 4, align=4) for column in chunk]
            with code.loop(whole(0), self._length(row), 1, before) as (place, sums, found):
                weight = code.spread(code.read(F32, weights, place, 4, align=4))
                for one, value in zip(sums, self._values(code.read(I64, path, place, 8, align=8), chunk), strict=True):
                    found.append(code.instruction("llvm.fma.v16f32", FLOATS, weight, value, one))
            for column, one in zip(chunk, found, strict=True):
                mean = code.fdiv(one, total)
                stored = code.as_bfloat16(mean) if self.bits == 16 else mean
                code.store(stored, code.at(output, whole(column), self.size), align=2)

    def _values(self, key: Value, columns: list[int]) -> list[Value]:
        code = self.code
        place = code.at(self.values, key, self.dim * self.size)
        return [code.bitcast(code.as_float32_bits(place, whole(column), self.bits), FLOATS) for column in columns]

    def _chunks(self, most: int = CHUNK) -> list[list[int]]:
        """The first columns of registers, some at a time."""
        columns = list(range(0, self.dim, LANES))
        return [columns[first : first + most] for first in range(0, len(columns), most)]


def _least(code: Code, one: Value, other: Value) -> Value:
    return code.select(code.icmp_signed("<", one, other), one, other)


def _most(code: Code, one: Value, other: Value) -> Value:
    return code.select(code.icmp_signed(">", one, other), one, other)


def _larger(code: Code, one: Value, other: Value) -> Value:
    return code.select(code.fcmp_ordered(">", one, other), one, other)


def _folded(code: Code, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """16 numbers as one: halves are combined, lane by lane."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        halves = [[ir.Constant(I32, start + lane) for lane in range(lanes)] for start in (0, lanes)]
        kind = ir.VectorType(I32, lanes)
        parts = [code.shuffle_vector(value, value, ir.Constant(kind, half)) for half in halves]
        value = combine(*parts)
    return code.extract_element(value, ir.Constant(I32, 0))


def _transposed(code: Code, rows: list[Value]) -> list[Value]:
    """16 registers, their columns as rows."""
    apart = 1
    while apart < LANES:
        turned = list(rows)
        for number in range(LANES):
            if not number & apart:
                one, other = rows[number], rows[number | apart]
                upper = [lane if not lane & apart else LANES + (lane ^ apart) for lane in range(LANES)]
                lower = [lane | apart if not lane & apart else LANES + lane for lane in range(LANES)]
                for place, order in ((number, upper), (number | apart, lower)):
                    lanes = ir.Constant(INTS, [ir.Constant(I32, lane) for lane in order])
                    turned[place] = code.shuffle_vector(one, other, lanes)
        rows = turned
        apart *= 2
    return rows


def exponential(code: Code, value: Value) -> Value:
    """e to the power of 16 numbers that are not above 0."""
    fma = partial(code.instruction, "llvm.fma.v16f32", FLOATS)
    held = code.select(code.fcmp_ordered("<", value, vector(FLOATS, LEAST)), vector(FLOATS, LEAST), value)
    shifted = fma(held, vector(FLOATS, LOG2E), vector(FLOATS, WHOLE))
    power, rest = code.fsub(shifted, vector(FLOATS, WHOLE)), held
    for part in LN2:
        rest = fma(power, vector(FLOATS, -part), rest)
    series = vector(FLOATS, SERIES[0])
    for factor in SERIES[1:]:
        series = fma(series, rest, vector(FLOATS, factor))
    series = code.fadd(fma(series, code.fmul(rest, rest), rest), vector(FLOATS, 1.0))
    exponent = code.shl(code.bitcast(shifted, INTS), vector(INTS, 23))
    result = code.bitcast(code.add(code.bitcast(series, INTS), exponent), FLOATS)
    return code.select(code.fcmp_ordered("<", value, vector(FLOATS, LEAST)), vector(FLOATS, 0.0), result)
