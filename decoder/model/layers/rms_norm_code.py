"""The machine code of root mean square norms in bfloat16. It needs no instruction beyond AVX2."""

from __future__ import annotations

from llvmlite import ir

from decoder.model.linear.machine_code import F32, FLOATS, I32, LANES, Code, Program, Value, vector, whole

FIELDS = ("source", "stride", "parts", "columns", "rows", "weight", "epsilon", "output", "counter")
"""bfloat16 [rows, columns] -> the same. In the source, so many `parts` lie behind each other, and `stride` numbers
behind the first of them come the next. `weight` is bfloat16 [columns], `epsilon` the bits of a float32."""
_BITS = 16


def program() -> Program:
    """The function `norm`."""
    made = Program()
    made.add("norm", FIELDS, frozenset({"source", "weight", "output"}), _norm)
    return made


def _norm(code: Code, fields: dict[str, Value]) -> None:
    columns = fields["columns"]
    epsilon, count = code.bitcast(code.trunc(fields["epsilon"], I32), F32), code.sitofp(columns, F32)
    with code.shared(fields["counter"], whole(1), fields["rows"]) as (row, _):
        whole_row, part = code.udiv(row, fields["parts"]), code.urem(row, fields["parts"])
        place = code.add(code.mul(whole_row, fields["stride"]), code.mul(part, columns))
        source = code.at(fields["source"], place, _BITS // 8)
        output = code.at(fields["output"], code.mul(row, columns), _BITS // 8)
        with code.loop(whole(0), columns, LANES, [vector(FLOATS, 0.0)]) as (column, (squares,), found):
            value = _numbers(code, source, column)
            found.append(code.instruction("llvm.fma.v16f32", FLOATS, value, value, squares))
        total = code.instruction("llvm.vector.reduce.fadd.v16f32", F32, ir.Constant(F32, 0.0), found[0])
        root = code.instruction("llvm.sqrt.f32", F32, code.fadd(code.fdiv(total, count), epsilon))
        factor = code.spread(code.fdiv(ir.Constant(F32, 1.0), root))
        with code.loop(whole(0), columns, LANES, []) as (column, _, _):
            halves = code.as_bfloat16(code.fmul(_numbers(code, source, column), factor))
            value = code.fmul(_numbers(code, fields["weight"], column), code.from_bfloat16(halves))
            code.store(code.as_bfloat16(value), code.at(output, column, _BITS // 8), align=2)


def _numbers(code: Code, source: Value, column: Value) -> Value:
    return code.bitcast(code.as_float32_bits(source, column, _BITS), FLOATS)
