"""The machine code that makes calls, one after the other."""

from __future__ import annotations

from llvmlite import ir

from decoder.model.linear.machine_code import I32, I64, POINTER, Code, Program, Value, whole

FIELDS = ("calls", "count", "parallel", "counter")
"""A call is four numbers: the addresses of its function, of its fields and of their last one, which counts and begins
at zero, and its threads. `parallel` is OpenMP's function that calls another on several threads."""
_NUMBERS = 4
_FUNCTION = ir.FunctionType(ir.VoidType(), [POINTER])
_PARALLEL = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I32, I32])


def program() -> Program:
    """The function `run`."""
    made = Program()
    made.add("run", FIELDS, frozenset({"calls"}), _run)
    return made


def _run(code: Code, fields: dict[str, Value]) -> None:
    parallel = code.inttoptr(fields["parallel"], ir.PointerType(_PARALLEL))
    with code.loop(whole(0), fields["count"], 1, []) as (number, _, _):
        call = code.at(fields["calls"], number, _NUMBERS * 8)
        function, given, counter, threads = (code.read(I64, call, whole(part), 8, align=8) for part in range(_NUMBERS))
        code.store(whole(0), code.inttoptr(counter, POINTER), align=8)
        pointer = code.inttoptr(given, POINTER)
        with code.if_else(code.icmp_signed("==", threads, whole(1))) as (alone, together):
            with alone:
                code.call(code.inttoptr(function, ir.PointerType(_FUNCTION)), [pointer])
            with together:
                several = [code.inttoptr(function, POINTER), pointer, code.trunc(threads, I32), ir.Constant(I32, 0)]
                code.call(parallel, several)
