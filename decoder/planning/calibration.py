"""Calibration: measures the cost curve of a target model on this machine and stores it in a file.

Knows target models and the clock; knows no drafter.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from decoder.drafts.tree import DraftTree, TokenSource
from decoder.model import attention, packed_linear
from decoder.model.target import TargetModel, TreePass
from decoder.planning.cost_curve import CostCurve, bucket_of

ROWS = (1, 2, 4, 8, 16, 32, 64)
CACHED = (512, 2048)
REPEATS = 5
SECONDS = 10.0
"""After this time each size is measured at most once more."""


def measure(
    target: TargetModel, rows: Sequence[int] = ROWS, cached: Sequence[int] = CACHED, seconds: float = SECONDS
) -> CostCurve:
    """Time passes of one sequence, in turn over the sizes, so that a slow moment affects all of them.

    The fastest pass of each size counts. Other work on the machine can only slow passes down, and a size whose cost is
    overestimated would never be tried again.

    Args:
        rows: sizes of a pass, root included.
        cached: tokens in the cache; sizes that exceed the model's window are skipped.
        seconds: the approximate time that it may take; each size is measured at least once after its warm-up.
    """
    curve = CostCurve()
    sizes = [size for size in cached if size + max(rows) <= target.max_positions] or [0]
    started = time.perf_counter()
    for number, size in enumerate(sizes, 1):
        times: dict[int, list[float]] = {count: [] for count in rows}
        for repeat in range(REPEATS + 1):
            for count in rows:
                elapsed = _time(target, size, count)
                if repeat or count == max(rows):  # the first round warms up; smaller sizes warm up the largest
                    times[count].append(elapsed)
            if repeat and time.perf_counter() - started > seconds * number / len(sizes):
                break
        curve.set(bucket_of(size, 1), {count: min(elapsed) for count, elapsed in times.items()})
    return curve


def load_or_measure(target: TargetModel, path: Path | None) -> CostCurve:
    """The curve stored at `path`. Without a readable one it is measured, and stored there unless `path` is None."""
    if path is not None and path.is_file():
        try:
            return CostCurve.load(path)
        except ValueError:
            path.unlink()
    curve = measure(target)
    if path is not None:
        curve.save(path)
    return curve


def fingerprint(target: TargetModel, model: str) -> str:
    """Identifies all that the curve depends on: model, dtype, device, threads, versions, row limits and bits of
    the kernels."""
    device = torch.cuda.get_device_name(target.device) if target.device.type == "cuda" else _processor()
    sizes = (target.layers, target.vocab_size, target.packed, packed_linear.MAX_ROWS, attention.MAX_ROWS)
    facts: tuple[object, ...] = (model, sizes, target.dtype, device, torch.get_num_threads(), torch.__version__)
    if target.bitwise:
        facts += ("bitwise",)
    if target.graphs is not None:
        facts += ("graphs",)
    if target.kernels is not None:
        facts += ("int8", target.kernels.border, target.kernels.wide)
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
    target.forward_tree([TreePass(cache, 0, tree)])[0].logits.argmax(-1).tolist()
    return time.perf_counter() - started
