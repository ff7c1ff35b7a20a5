"""Machine code for x86 processors, made with llvmlite, which comes with numba, and run on torch's threads.

Its registers have 16 numbers, as AVX-512's; where those have fewer, LLVM divides them.

A function takes one pointer, to 64-bit numbers: its fields. Several threads call it with the same pointer and share
the work by a counter, the last field. Knows memory, arithmetic and threads; knows no tensor and no layer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import llvmlite.binding as llvm
from llvmlite import ir

from decoder import openmp
from decoder.model.linear.tiled_matrix import AHEAD, OUTPUTS

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
Run = Callable[[list[int], int], None]
"""Calls a function with its fields on a number of threads."""


class Code(ir.IRBuilder):  # type: ignore[misc]
    """Writes the body of one function."""

    def at(self, base: Value, number: Value, size: int) -> Value:
        """The address of an element of `size` bytes."""
        return self.gep(base, [self.mul(number, whole(size))], source_etype=I8)

    def read(self, kind: ir.Type, base: Value, number: Value, size: int, align: int) -> Value:
        """What is at an element of `size` bytes."""
        return self.load(self.at(base, number, size), align=align, typ=kind)

    def read_on(self, kind: ir.Type, base: Value, number: Value, size: int, align: int) -> Value:
        """As `read`, of a matrix that is read in order: memory is asked for what comes `AHEAD` bytes later.

        A processor asks by itself only as far as its instructions in flight reach, which are few columns if each is
        multiplied with several rows.
        """
        self.ask(self.at(base, number, size))
        return self.read(kind, base, number, size, align)

    def ask(self, place: Value) -> None:
        """Asks memory for what is `AHEAD` bytes behind an address. One behind the matrix does no harm."""
        nothing, data, near = (ir.Constant(I32, number) for number in (0, 1, 3))
        self.instruction("llvm.prefetch.p0", ir.VoidType(), self.at(place, whole(AHEAD), 1), nothing, near, data)

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
        self, start: Value, end: Value, step: int, carried: list[Value]
    ) -> Iterator[tuple[Value, list[Value], list[Value]]]:
        """A loop that runs at least once: its number, what it carries, and a list for what it carries on."""
        before, inside = self.block, self.append_basic_block()
        self.branch(inside)
        self.position_at_end(inside)
        number = self.phi(I64)
        values = [self.phi(value.type) for value in carried]
        found: list[Value] = []
        yield number, values, found
        following = self.add(number, whole(step))
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

    def tiles(self, fields: dict[str, Value], most: int, body: Callable[[Value, Value, int], None]) -> None:
        """For each tile of outputs, all its tiles of rows, so that its weights stay in a cache.

        Args:
            fields: `tiles`, how many there are; `share`, how many a thread takes at once; `rows`; `counter`.
            most: rows of a tile; the last may have fewer.
            body: writes the code of a tile: its number, its first row, and the number of its rows.
        """
        with (
            self.shared(fields["counter"], fields["share"], fields["tiles"]) as (first, end),
            self.loop(first, end, 1, []) as (tile, _, _),
            self.loop(whole(0), fields["rows"], most, []) as (row, _, _),
        ):
            behind, *blocks = (self.append_basic_block() for _ in range(most + 1))
            switch = self.switch(self.sub(fields["rows"], row), blocks[-1])
            for count, block in enumerate(blocks, 1):
                if count < most:
                    switch.add_case(whole(count), block)
                self.position_at_end(block)
                body(tile, row, count)
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
        return {name: _run(engine, name, count, parallel) for name, count in self._fields.items()}


def _run(engine: Any, name: str, fields: int, parallel: Any) -> Run:
    address = engine.get_function_address(name)
    alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
    numbers = ctypes.c_int64 * fields

    def run(values: list[int], threads: int, engine: Any = engine) -> None:  # keeps the engine, which owns the code
        given = numbers(*values)
        if threads == 1:
            alone(ctypes.addressof(given))
        else:
            parallel(address, ctypes.addressof(given), threads, 0)

    return run
