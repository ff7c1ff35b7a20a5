"""The machine code of sums in bfloat16. It needs no instruction beyond AVX2."""

from __future__ import annotations

from decoder.model.linear.machine_code import FLOATS, LANES, Code, Program, Value, whole

FIELDS = ("one", "other", "columns", "rows", "output", "counter")
"""bfloat16 [rows, columns], twice -> the same, rounded."""
_BITS = 16


def program() -> Program:
    """The function `add`."""
    made = Program()
    made.add("add", FIELDS, frozenset({"one", "other", "output"}), _add)
    return made


def _add(code: Code, fields: dict[str, Value]) -> None:
    columns = fields["columns"]
    with code.shared(fields["counter"], whole(1), fields["rows"]) as (row, _):
        start = code.mul(row, columns)
        one, other, output = (code.at(fields[name], start, _BITS // 8) for name in ("one", "other", "output"))
        with code.loop(whole(0), columns, LANES, []) as (column, _, _):
            parts = (code.bitcast(code.as_float32_bits(part, column, _BITS), FLOATS) for part in (one, other))
            code.store(code.as_bfloat16(code.fadd(*parts)), code.at(output, column, _BITS // 8), align=2)
