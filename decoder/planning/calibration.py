"""Calibration: measures the cost curve of a target model on this machine and stores it in a file.

Knows target models and the clock; knows no drafter.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from decoder import dtypes
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.model.bitwise import BitwiseLinear
from decoder.model.linear import packed_linear, rounding
from decoder.model.linear.blocks import block_product
from decoder.model.linear.int8 import int8_linear
from decoder.model.linear.tiled_linear import TiledLinear
from decoder.model.linear.tiled_matrix import AHEAD, BLOCK_BYTES
from decoder.model.pass_parts import TreePass
from decoder.model.target import MAX_PATHS, TargetModel
from decoder.planning.cost_curve import CostCurve, bucket_of
from decoder.sampling.greedy import greedy

log = logging.getLogger(__name__)

ROWS = (1, 2, 4, 8, 16, 32, 64)
GPU_ROWS = (*ROWS, 128, 256, 512)
"""On a GPU more rows are nearly free, and whether they are is known only from passes with as many."""
CACHED = (512, 2048)
REPEATS = 5
SECONDS = 10.0
"""Time that measuring may take, about; on a slow machine, that of two passes."""


def measure(
    target: TargetModel, rows: Sequence[int] | None = None, cached: Sequence[int] = CACHED, seconds: float = SECONDS
) -> CostCurve:
    """Time passes of one sequence, in turn over the sizes, so that a slow moment affects all of them.

    The fastest pass of each size counts. Other work on the machine can only slow passes down, and a size whose cost is
    overestimated would never be tried again.

    Where time runs out, the curve is a line between the sizes that were measured, and a number of cached tokens without
    measurements takes the nearest one's. Passes while serving correct both.

    Args:
        rows: sizes of a pass, root included; by default ROWS, on a GPU GPU_ROWS.
        cached: tokens in the cache; sizes that exceed the model's window are skipped.
        seconds: the time that it may take, shared by the sizes of the cache. Of one that is begun, the smallest and the
            largest pass are timed whatever time they take; the first pass of a size is a warm-up, and counts only
            where it is the only one of these two.
    """
    curve = CostCurve()
    rows = rows or (ROWS if target.device.type == "cpu" else GPU_ROWS)
    sizes = [size for size in cached if size + max(rows) <= target.max_positions] or [0]
    started = time.perf_counter()
    for number, size in enumerate(sizes, 1):
        ends = started + seconds * number / len(sizes)
        if number > 1 and time.perf_counter() >= ends:
            break
        curve.set(bucket_of(size, 1), _fastest(target, size, rows, ends))
    return curve


def _fastest(target: TargetModel, cached: int, rows: Sequence[int], ends: float) -> dict[int, float]:
    """Rows -> seconds of the fastest pass, until the time `ends`; at least of the smallest and the largest size."""
    outer = (max(rows), min(rows))
    order = (*outer, *(count for count in rows if count not in outer))
    times: dict[int, list[float]] = {count: [] for count in rows}
    for count in (*outer, *order * (REPEATS + 1)):
        if time.perf_counter() >= ends and all(times[one] for one in outer):
            break
        times[count].append(_time(target, cached, count))
    warm = {count: measured[1:] or (measured if count in outer else []) for count, measured in times.items()}
    return {count: min(measured) for count, measured in warm.items() if measured}


def load_or_measure(target: TargetModel, path: Path | None) -> CostCurve:
    """The curve stored at `path`. Without a readable one it is measured, and stored there unless `path` is None."""
    if path is not None and path.is_file():
        try:
            return CostCurve.load(path)
        except ValueError:
            path.unlink()
    log.info("measuring how long passes of this model take here, once; about %.0f s, longer if they are slow", SECONDS)
    curve = measure(target)
    if path is not None:
        curve.save(path)
    return curve


def fingerprint(target: TargetModel, model: str) -> str:
    """Identifies all that the curve depends on: model, dtype, device, threads, versions, row limits and bits of
    the kernels."""
    device = torch.cuda.get_device_name(target.device) if target.device.type == "cuda" else _processor()
    sizes = (
        target.layers,
        target.vocab_size,
        target.packed,
        packed_linear.MAX_ROWS,
        MAX_PATHS if target.along_paths else 0,
    )
    facts: tuple[object, ...] = (model, sizes, target.dtype, device, torch.get_num_threads(), torch.__version__)
    if any(isinstance(layer, BitwiseLinear) for layer in target.model.modules()):  # other bitwise passes are the usual
        facts += ("bitwise",)
    if target.along_paths:
        facts += ("paths", MAX_PATHS)
    if target.joint:
        facts += ("joint", target.joint, target.norms)
    if target.gates or target.rotations:
        facts += ("layers", target.gates, target.rotations)
    if target.prepared:
        facts += ("prepared", target.prepared)
    if target.graphs is not None:
        facts += ("graphs",)
    if any(isinstance(layer, TiledLinear) for layer in target.model.modules()):
        facts += ("tiled",)
    if dtypes.INT8 in target.integer_formats:
        facts += ("int8, rotated", int8_linear.kernel_name(), str(rounding.available()))
    if dtypes.INT4 in target.integer_formats:
        facts += ("int4, in order", block_product.kernel_name())
    facts += ("ahead", AHEAD, "blocks", BLOCK_BYTES, "greedy in blocks")
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _time(target: TargetModel, cached: int, rows: int) -> float:
    """Seconds of one pass."""
    cache = target.new_cache(cached + rows)
    cache.fill_with_zeros(cached)
    tree = DraftTree.chain([0] * (rows - 1), [TokenSource("calibration")] * (rows - 1))
    target.synchronize()
    started = time.perf_counter()
    greedy(target.forward_tree([TreePass(cache, 0, tree)])[0].logits).tolist()
    return time.perf_counter() - started
