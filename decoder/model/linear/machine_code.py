"""Machine code for x86 processors, made with llvmlite, which comes with numba, and run on torch's threads.

Its registers have 16 numbers, as AVX-512's; where those have fewer, LLVM divides them.

A function takes one pointer, to 64-bit numbers: its fields. Several threads call it with the same pointer and share
the work by a counter, the last field. Knows memory, arithmetic and threads; knows no tensor and no layer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import llvmlite.binding as llvm
from llvmlite import ir

from decoder import openmp
from decoder.model.linear.run import Run
from decoder.model.linear.tiled_matrix import AHEAD, BLOCK_BYTES, OUTPUTS, PIECE_ROWS

LANES = 16
"""Numbers of 32 bits in a register."""
I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32, POINTER = ir.FloatType(), ir.PointerType()
INTS, FLOATS = ir.VectorType(I32, LANES), ir.VectorType(F32, LANES)
VECTORS = OUTPUTS // LANES
"""Registers of a tile's outputs."""

Value: TypeAlias = Any
"""A number, vector or address in the code."""
Body = Callable[["Code", dict[str, Value]], None]


_PACE = 16
"""Bits behind the point of a quotient."""
_BEGINNING = 16
"""Of a block: each row of the second of two tiles asks for such a part."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the code goes through a matrix: the units of a tile, which are columns or records, lie behind each other.

    Attributes:
        length: units of a tile.
        size: bytes of a unit.
        step: units that are read at once; `length` is a multiple of it.
        rows: most rows of a tile of rows.
        kind: of the sums.
    """

    length: Value
    size: int
    step: int
    rows: int
    kind: ir.VectorType


Add = Callable[[Value, Value, int, tuple[Value, Value], list[Value]], Sequence[Value]]
"""Of the matrix from a tile on, its first row, the number of its rows, the first unit and the one behind the last, and
the sums before, [rows * VECTORS]: those with the products of these units."""
Write = Callable[[Value, Value, list[Value]], None]
"""Of the number of a tile, a row, and its sums, [VECTORS]."""


class Code(ir.IRBuilder):  # type: ignore[misc]
    """Writes the body of one function."""

    _ahead: tuple[Value, Value, Value]

    def at(self, base: Value, number: Value, size: int) -> Value:
        """The address of an element of `size` bytes."""
        return self.gep(base, [self.mul(number, whole(size))], source_etype=I8)

    def read(self, kind: ir.Type, base: Value, number: Value, size: int, align: int) -> Value:
        """What is at an element of `size` bytes."""
        return self.load(self.at(base, number, size), align=align, typ=kind)

    def read_on(self, kind: ir.Type, base: Value, number: Value, size: int, align: int) -> Value:
        """As `read`, of a matrix that is read in order: memory is asked for what comes later.

        A processor asks by itself only as far as its instructions in flight reach, which are few columns if each is
        multiplied with several rows.
        """
        self.ask(self.at(base, number, size))
        return self.read(kind, base, number, size, align)

    def ask(self, place: Value) -> None:
        """Asks memory for what comes later than a line of the matrix that is read now, in a body of `tiles`.

        With one tile of rows that is `AHEAD` bytes later. With several, the block is in a cache behind the first of
        them, so all of them together ask for the next block, each for its share: memory is as busy with the last of
        them as with the first. Two tiles take less time than memory does, and are faster if the first asks as if it
        were alone, and the second for the beginning of the next block. What lies behind the matrix does no harm.
        """
        origin, start, pace = self._ahead
        passed = self.lshr(self.mul(self.sub(self.ptrtoint(place, I64), start), pace), whole(_PACE))
        self.fetch(self.at(origin, passed, 1))

    def fetch(self, place: Value) -> None:
        """Asks memory for the line of an address, which may lie anywhere."""
        nothing, data, near = (ir.Constant(I32, number) for number in (0, 1, 3))
        self.instruction("llvm.prefetch.p0", ir.VoidType(), place, nothing, near, data)

    def spread(self, value: Value) -> Value:
        """A number in every lane."""
        kind = ir.VectorType(value.type, LANES)
        nothing = ir.Constant(kind, ir.Undefined)
        return self.shuffle_vector(self.insert_element(nothing, value, ir.Constant(I32, 0)), nothing, vector(INTS, 0))

    def instruction(self, name: str, kind: ir.Type, *arguments: Value) -> Value:
        """What an instruction of LLVM's gives."""
        declared = self.module.globals.get(name)
        if declared is None:
            declared = ir.Function(self.module, ir.FunctionType(kind, [value.type for value in arguments]), name)
        return self.call(declared, arguments)

    def as_float32_bits(self, source: Value, number: Value, bits: int) -> Value:
        """The bits of 16 numbers as float32, from the element `number` on of such with `bits` each, 16 (bfloat16) or
        32."""
        if bits == 32:
            return self.read(INTS, source, number, 4, align=4)
        halves = self.read(ir.VectorType(I16, LANES), source, number, 2, align=2)
        return self.shl(self.zext(halves, INTS), vector(INTS, 16))

    def as_bfloat16(self, value: Value) -> Value:
        """The bits of 16 float32 numbers rounded to the nearest, ties to even; what is no number stays none if the
        lower half of its bits is empty."""
        bits = self.bitcast(value, INTS)
        odd = self.and_(self.lshr(bits, vector(INTS, 16)), vector(INTS, 1))
        nearest = self.add(self.add(bits, odd), vector(INTS, 0x7FFF))
        return self.trunc(self.lshr(nearest, vector(INTS, 16)), ir.VectorType(I16, LANES))

    def from_bfloat16(self, halves: Value) -> Value:
        """Numbers from the bits of 16 bfloat16 ones."""
        return self.bitcast(self.shl(self.zext(halves, INTS), vector(INTS, 16)), FLOATS)

    @contextmanager
    def loop(
        self, start: Value, end: Value, step: int | Value, carried: list[Value]
    ) -> Iterator[tuple[Value, list[Value], list[Value]]]:
        """A loop that runs at least once: its number, what it carries, and a list for what it carries on."""
        before, inside = self.block, self.append_basic_block()
        self.branch(inside)
        self.position_at_end(inside)
        number = self.phi(I64)
        values = [self.phi(value.type) for value in carried]
        found: list[Value] = []
        yield number, values, found
        following = self.add(number, whole(step) if isinstance(step, int) else step)
        for phi, first, later in zip([number, *values], [start, *carried], [following, *found], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, self.block)
        behind = self.append_basic_block()
        self.cbranch(self.icmp_signed("<", following, end), inside, behind)
        self.position_at_end(behind)

    @contextmanager
    def shared(self, counter: Value, share: Value, end: Value) -> Iterator[tuple[Value, Value]]:
        """A loop over stretches of `share` numbers below `end` that no other thread took: first, and behind last."""
        take, inside, behind = (self.append_basic_block() for _ in range(3))
        self.branch(take)
        self.position_at_end(take)
        first = self.atomic_rmw("add", counter, share, "seq_cst")
        self.cbranch(self.icmp_signed("<", first, end), inside, behind)
        self.position_at_end(inside)
        last = self.add(first, share)
        yield first, self.select(self.icmp_signed("<", last, end), last, end)
        self.branch(take)
        self.position_at_end(behind)

    def tiles(self, fields: dict[str, Value], form: Form, add: Add, write: Write) -> None:
        """For each tile of outputs, the sums of all rows with a block of columns after the other.

        A block stays in a cache for all tiles of rows. Sums wait in memory meanwhile, 16 by `VECTORS` for a row.

        Args:
            fields: `matrix`; `tiles`, how many there are; `share`, how many a thread takes at once; `rows`, at most
                `PIECE_ROWS`; `counter`.
            form: of the matrix.
            add: writes the code of a tile of rows and a block.
            write: writes the code for a row's sums of a tile.
        """
        rows, length, kept = fields["rows"], form.length, self.alloca(POINTER, size=whole(PIECE_ROWS * VECTORS * 8))
        kept.align = 64
        parts = self._ceiling(rows, whole(form.rows))
        most = self._ceiling(rows, parts)
        blocks = self._ceiling(self.mul(length, whole(form.size)), whole(BLOCK_BYTES))
        block = self.mul(self._ceiling(self._ceiling(length, blocks), whole(form.step)), whole(form.step))

        def sums(row: Value, number: int) -> Value:
            return self.at(kept, self.add(self.mul(row, whole(VECTORS)), whole(number)), 64)

        with (
            self.shared(fields["counter"], fields["share"], fields["tiles"]) as (first, end),
            self.loop(first, end, 1, []) as (tile, _, _),
        ):
            matrix = self.at(fields["matrix"], self.mul(tile, length), form.size)
            with self.loop(whole(0), rows, 1, []) as (row, _, _):
                for number in range(VECTORS):
                    self.store(vector(form.kind, 0), sums(row, number), align=64)
            with self.loop(whole(0), length, block, []) as (start, _, _):
                stop = self._lesser(self.add(start, block), length)
                with self.loop(whole(0), parts, 1, []) as (part, _, _):
                    self._ahead = self._asked(
                        self.at(matrix, start, form.size), self.at(matrix, stop, form.size), part, parts, most
                    )
                    row = self.mul(part, most)
                    for count in self._cases(self._lesser(self.sub(rows, row), most), form.rows):
                        places = [sums(row, number) for number in range(count * VECTORS)]
                        before = [self.load(place, align=64, typ=form.kind) for place in places]
                        for place, value in zip(places, add(matrix, row, count, (start, stop), before), strict=True):
                            self.store(value, place, align=64)
            with self.loop(whole(0), rows, 1, []) as (row, _, _):
                write(tile, row, [self.load(sums(row, number), align=64, typ=form.kind) for number in range(VECTORS)])

    def _asked(self, start: Value, stop: Value, part: Value, parts: Value, most: Value) -> tuple[Value, Value, Value]:
        """What `ask` reckons with: where it begins to ask, where the block begins, and the step by what is read."""
        begun, every = self.ptrtoint(start, I64), whole(1 << _PACE)
        two = self.icmp_signed("==", parts, whole(2))
        streams = self.and_(self.icmp_signed("==", part, whole(0)), self.icmp_signed("<=", parts, whole(2)))
        pace = self.select(two, self.mul(most, whole((1 << _PACE) // _BEGINNING)), self.udiv(every, parts))
        asked = self.mul(self.mul(self.sub(self.ptrtoint(stop, I64), begun), part), self.select(two, whole(0), pace))
        origin = self.select(streams, self.at(start, whole(AHEAD), 1), self.at(stop, self.lshr(asked, whole(_PACE)), 1))
        return origin, begun, self.select(streams, every, pace)

    def _ceiling(self, number: Value, divisor: Value) -> Value:
        return self.udiv(self.add(number, self.sub(divisor, whole(1))), divisor)

    def _lesser(self, one: Value, other: Value) -> Value:
        return self.select(self.icmp_signed("<", one, other), one, other)

    def _cases(self, number: Value, most: int) -> Iterator[int]:
        """Code for each number from 1 to `most`, of which the one that is `number` runs."""
        behind, *blocks = (self.append_basic_block() for _ in range(most + 1))
        switch = self.switch(number, blocks[-1])
        for count, block in enumerate(blocks, 1):
            if count < most:
                switch.add_case(whole(count), block)
            self.position_at_end(block)
            yield count
            self.branch(behind)
        self.position_at_end(behind)


def whole(number: int) -> Value:
    """A constant."""
    return ir.Constant(I64, number)


def vector(kind: ir.VectorType, number: float) -> Value:
    """A constant in every lane."""
    return ir.Constant(kind, [ir.Constant(kind.element, number)] * LANES)


class Program:
    """Functions, and their code once they are compiled."""

    def __init__(self) -> None:
        self._module = ir.Module()
        self._fields: dict[str, int] = {}

    def add(self, name: str, fields: tuple[str, ...], pointers: frozenset[str], body: Body) -> None:
        """A function whose fields have these names; the last is the counter."""
        function = ir.Function(self._module, ir.FunctionType(ir.VoidType(), [POINTER]), name)
        code = Code(function.append_basic_block())
        given: dict[str, Value] = {fields[-1]: code.at(function.args[0], whole(len(fields) - 1), 8)}
        for number, field in enumerate(fields[:-1]):
            given[field] = code.read(POINTER if field in pointers else I64, function.args[0], whole(number), 8, 8)
        body(code, given)
        code.ret_void()
        self._fields[name] = len(fields)

    def compiled(self, feature: str) -> dict[str, Run]:
        """The functions by name.

        Args:
            feature: what LLVM calls the instructions that the processor needs.

        Raises:
            OSError, AttributeError: torch has no GNU OpenMP.
            RuntimeError: LLVM cannot make the code for this processor.
        """
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        if not llvm.get_host_cpu_features().get(feature):
            raise RuntimeError(f"LLVM knows no {feature} here")
        module = llvm.parse_assembly(str(self._module))
        module.verify()
        features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3)
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        passes.getModulePassManager().run(module, passes)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        parallel = openmp.library().GOMP_parallel
        parallel.argtypes, parallel.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
        return {name: Run(engine, name, count, parallel) for name, count in self._fields.items()}
