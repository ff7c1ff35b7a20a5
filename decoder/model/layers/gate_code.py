"""The machine code of gates in bfloat16: SiLU of one row, by another. It needs no instruction beyond AVX2 and FMA."""

from __future__ import annotations

from llvmlite import ir

from decoder.model.linear.machine_code import FLOATS, LANES, Code, Program, Value, vector, whole
from decoder.model.paths.path_attention_code import exponential

FIELDS = ("gate", "up", "stride", "columns", "rows", "output", "counter")
"""bfloat16 [rows, columns], rows `stride` numbers apart, twice -> [rows, columns]."""
_BITS = 16


def program() -> Program:
    """The function `gate`."""
    made = Program()
    made.add("gate", FIELDS, frozenset({"gate", "up", "output"}), _gate)
    return made


def _gate(code: Code, fields: dict[str, Value]) -> None:
    with code.shared(fields["counter"], whole(1), fields["rows"]) as (row, _):
        start = code.mul(row, fields["stride"])
        gate, up = (code.at(fields[name], start, _BITS // 8) for name in ("gate", "up"))
        output = code.at(fields["output"], code.mul(row, fields["columns"]), _BITS // 8)
        with code.loop(whole(0), fields["columns"], LANES, []) as (column, _, _):
            factor, value = (code.bitcast(code.as_float32_bits(one, column, _BITS), FLOATS) for one in (up, gate))
            active = code.from_bfloat16(code.as_bfloat16(_silu(code, value)))
            code.store(code.as_bfloat16(code.fmul(active, factor)), code.at(output, column, _BITS // 8), align=2)


def _silu(code: Code, value: Value) -> Value:
    """value / (1 + e^-value), by the power of e that is at most 1."""
    least = code.instruction("llvm.fabs.v16f32", FLOATS, value)
    power = exponential(code, code.fneg(least))
    above = code.fcmp_ordered(">=", value, vector(FLOATS, 0.0))
    numerator = code.select(above, value, code.fmul(value, power))
    return code.fdiv(numerator, code.fadd(power, ir.Constant(FLOATS, [1.0] * LANES)))
