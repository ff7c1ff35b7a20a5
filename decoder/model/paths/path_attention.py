"""Attention of rows along their paths: a row's outcome depends on its own keys, in their order, and on nothing else.

So a draft's row has the bits that plain decoding gives it, whatever other branches, sequences or threads there are.
There is a readable form, and machine code for x86 processors with AVX2 (`path_attention_code.py`, made at the first
use) that gives the same bits of finite numbers. Scores and sums are float32.

Knows queries, keys and values; knows no model.
"""

from __future__ import annotations

import logging
import struct
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from decoder.dtypes import MATRIX_FLAGS, flags
from decoder.model.linear.blocks.float32 import fused
from decoder.model.linear.calls import Call, Empty
from decoder.model.linear.run import Run
from decoder.model.paths.exponentials import exponentials
from decoder.model.paths.paths import KEYS, Paths

log = logging.getLogger(__name__)

FLAGS = frozenset({"avx2", "fma"})
LANES = 16
"""Columns of a head and exponentials that are computed together."""
_BITS = {torch.bfloat16: 16, torch.float32: 32}
_ALONE = 1 << 16
"""Fewer products than this take one thread: waking another takes longer."""


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, paths: Paths, scaling: float, output: torch.Tensor
) -> None:
    """Attention of the rows of some paths, by the machine code.

    Raises:
        ValueError: keys, values or output are of another dtype or form than the code reads.

    Args:
        query: [heads, n, dim], bfloat16 or float32.
        keys, values: [kv_heads, S, dim] of the same dtype, views of one buffer.
        paths: of the n rows.
        scaling: factor of query-key products.
        output: [n, heads, dim], contiguous; is written.
    """
    dim = query.shape[2]
    same = query.dtype is keys.dtype is values.dtype is output.dtype and keys.stride() == values.stride()
    if not (same and keys.stride()[1:] == (dim, 1) and query.stride(2) == 1 and output.is_contiguous()):
        raise ValueError(f"queries in {query.dtype} and keys in {keys.dtype}, or their form, do not fit the code")
    if lacking := -dim % LANES:  # columns of zeros change no bit
        query, keys, values = (F.pad(one, (0, lacking)) for one in (query, keys, values))
        padded = query.new_empty(*output.shape[:2], dim + lacking)
        call(query, keys, values, paths, scaling, padded).run()
        output.copy_(padded[:, :, :dim])
    else:
        call(query, keys, values, paths, scaling, output).run()


def call(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    paths: Paths,
    scaling: float,
    output: torch.Tensor,
    empty: Empty = torch.empty,
) -> Call:
    """That of `attend`, of whole registers of columns; `empty` makes room for what it writes beside the output."""
    heads, rows, dim = query.shape
    kv_heads, groups = keys.shape[0], heads // keys.shape[0]
    queries, width = groups * rows, paths.shared + paths.keys.shape[1]
    threads = 1 if heads * rows * width * dim < _ALONE else torch.get_num_threads()
    stretches = min(queries, -(-threads // kv_heads) * (1 if rows == 1 else 2))
    stretch = -(-queries // stretches)
    number = torch.float32
    scores, work = empty(heads * rows, width, dtype=number), empty(heads * rows, dim, dtype=number)
    totals, turned = empty(heads * rows, dtype=number), empty(kv_heads * stretches, dim, KEYS, dtype=number)
    bits = int.from_bytes(struct.pack("<f", scaling), "little")
    return Call(
        code(_BITS[query.dtype], dim),
        [
            query.data_ptr(), query.stride(0), query.stride(1), keys.data_ptr(), values.data_ptr(), keys.stride(0),
            kv_heads, groups, queries, paths.shared, paths.keys.data_ptr(), paths.keys.shape[1],
            paths.lengths.data_ptr(), bits, scores.data_ptr(), width, work.data_ptr(), totals.data_ptr(),
            turned.data_ptr(), output.data_ptr(), stretch, -(-queries // stretch), 0,
        ],
        threads,
        (query, keys, values, paths.keys, paths.lengths, scores, work, totals, turned, output),
    )  # fmt: skip


def readable(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, paths: Paths, scaling: float
) -> torch.Tensor:
    """As `attend`, slowly, [n, heads, dim]; the reference of the compiled form."""
    heads, rows, _ = query.shape
    groups = heads // len(keys)
    output = torch.empty(rows, *query.shape[::2], dtype=query.dtype)
    for row in range(rows):
        path = torch.cat([torch.arange(paths.shared), paths.keys[row, : paths.lengths[row]]])
        here, there = (part[:, path].float().repeat_interleave(groups, 0) for part in (keys, values))
        scores = torch.zeros(heads, len(path))
        for column, one in enumerate(query[:, row].float().unbind(1)):
            scores = fused(one[:, None], here[:, :, column], scores)
        scores *= torch.tensor(scaling)
        weights = exponentials(scores - scores.amax(1, keepdim=True))
        lanes = torch.zeros(heads, LANES)
        for part in torch.split(F.pad(weights, (0, -len(path) % LANES)), LANES, 1):
            lanes = lanes + part
        while lanes.shape[1] > 1:
            lanes = torch.add(*lanes.chunk(2, 1))
        total = torch.zeros(heads, query.shape[2])
        for number in range(len(path)):
            total = fused(weights[:, number, None], there[:, number], total)
        output[row] = (total / lanes).to(query.dtype)
    return output


def suits(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether there is code for a processor, which the file describes as Linux does."""
    return flags(processor) >= FLAGS


@cache
def has_matrix_units(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether torch's kernels multiply with some, which the code does not."""
    return not flags(processor).isdisjoint(MATRIX_FLAGS)


@cache
def available(dtype: torch.dtype, dim: int, processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the code is for this processor, these numbers and heads of so many columns, and right here."""
    if dtype not in _BITS or not suits(processor):
        return False
    try:
        right = _right(dtype, dim)
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("attention uses torch's kernels: no machine code of its own (%s)", problem)
        return False
    if not right:
        log.warning("machine code for attention computes wrong on this processor, so it is not used")
    return right


def _right(dtype: torch.dtype, dim: int) -> bool:
    """Whether some rows get the reference's bits."""
    rows, before, kv_heads = 5, KEYS + 3, 2
    numbers = torch.linspace(-3.0, 3.0, 2 * kv_heads * (before + rows) * dim).sin().to(dtype)
    keys, values = numbers.view(2, kv_heads, before + rows, dim)
    query = keys[:, :rows].repeat_interleave(3, 0)
    own = np.eye(rows, dtype=np.bool_)
    own[2:, 0] = own[4, 3] = True
    paths, output = Paths.of(before, own), torch.empty(rows, 3 * kv_heads, dim, dtype=dtype)
    attend(query, keys, values, paths, dim**-0.5, output)
    return torch.equal(output, readable(query, keys, values, paths, dim**-0.5))


@cache
def code(bits: int, dim: int) -> Run:
    """The function `attend` of `path_attention_code.py`.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.paths.path_attention_code import program

    return program(bits, dim).compiled("avx2")["attend"]
