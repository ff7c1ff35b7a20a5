"""The machine code of rotary embeddings in bfloat16, which also puts keys and values where they are kept. It needs no
instruction beyond AVX2.
"""

from __future__ import annotations

from llvmlite import ir

from decoder.model.linear.machine_code import FLOATS, I16, LANES, Code, Program, Value, whole

FIELDS = (
    "queries", "query_stride", "heads", "keys", "key_stride", "values", "value_stride", "kv_heads",
    "cosines", "sines", "rows", "dim", "kept_keys", "kept_values", "kept_stride", "counter",
)  # fmt: skip
"""bfloat16 queries [rows, heads, dim], keys and values [rows, kv_heads, dim], the rows by their strides; cosines and
sines [rows, dim]. Queries are rotated in place. Keys, rotated, and values are written to [kv_heads, any, dim], heads
`kept_stride` numbers apart."""
POINTERS = frozenset({"queries", "keys", "values", "cosines", "sines", "kept_keys", "kept_values"})
_SIZE, _BITS = 2, 16
Fields = dict[str, Value]


def program() -> Program:
    """The function `rotate`."""
    made = Program()
    made.add("rotate", FIELDS, POINTERS, _rotate)
    return made


def _rotate(code: Code, f: Fields) -> None:
    with code.shared(f["counter"], whole(1), f["rows"]) as (row, _):
        turn = code.mul(row, f["dim"])
        turns = tuple(code.at(f[name], turn, _SIZE) for name in ("cosines", "sines"))
        queries, keys, values = (
            code.at(f[name], code.mul(row, f[stride]), _SIZE)
            for name, stride in (("queries", "query_stride"), ("keys", "key_stride"), ("values", "value_stride"))
        )
        with code.loop(whole(0), f["heads"], 1, []) as (head, _, _):
            query = code.at(queries, code.mul(head, f["dim"]), _SIZE)
            _turned(code, f["dim"], query, query, turns)
        with code.loop(whole(0), f["kv_heads"], 1, []) as (head, _, _):
            here, there = code.mul(head, f["dim"]), code.add(code.mul(head, f["kept_stride"]), turn)
            _turned(code, f["dim"], code.at(keys, here, _SIZE), code.at(f["kept_keys"], there, _SIZE), turns)
            source, target = code.at(values, here, _SIZE), code.at(f["kept_values"], there, _SIZE)
            with code.loop(whole(0), f["dim"], LANES, []) as (column, _, _):
                halves = code.read(ir.VectorType(I16, LANES), source, column, _SIZE, align=2)
                code.store(halves, code.at(target, column, _SIZE), align=2)


def _turned(code: Code, dim: Value, source: Value, target: Value, turns: tuple[Value, ...]) -> None:
    """x * cos + (-second half of x, first half) * sin, each rounded to bfloat16, to the target, which may be x."""
    half = code.sdiv(dim, whole(2))
    with code.loop(whole(0), half, LANES, []) as (column, _, _):
        places = (column, code.add(column, half))
        first, second = (_numbers(code, source, place) for place in places)
        for place, value, other in zip(places, (first, second), (code.fneg(second), first), strict=True):
            parts = (
                _rounded(code, code.fmul(one, _numbers(code, turn, place)))
                for one, turn in zip((value, other), turns, strict=True)
            )
            code.store(code.as_bfloat16(code.fadd(*parts)), code.at(target, place, _SIZE), align=2)


def _numbers(code: Code, source: Value, column: Value) -> Value:
    return code.bitcast(code.as_float32_bits(source, column, _BITS), FLOATS)


def _rounded(code: Code, value: Value) -> Value:
    return code.from_bfloat16(code.as_bfloat16(value))
