"""Calibration: the cost curve of a target model on this machine, measured once and kept in a file.

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
"""Once this is spent, each size gets one more measurement at most."""


def measure(
    target: TargetModel, rows: Sequence[int] = ROWS, cached: Sequence[int] = CACHED, seconds: float = SECONDS
) -> CostCurve:
    """Time passes of one sequence, sizes in turn so that a slow moment falls on all of them.

    Of each size the fastest counts: what else a machine does makes passes slower and never faster, and a size that is
    taken for too dear is not tried again.

    Args:
        rows: sizes of a pass, root included.
        cached: tokens in the cache; those that exceed the model's window are left out.
        seconds: about how long it may take; a size is measured at least once behind its warm-up.
    """
    curve = CostCurve()
    sizes = [size for size in cached if size + max(rows) <= target.max_positions] or [0]
    started = time.perf_counter()
    for number, size in enumerate(sizes, 1):
        times: dict[int, list[float]] = {count: [] for count in rows}
        for repeat in range(REPEATS + 1):
            for count in rows:
                taken = _time(target, size, count)
                if repeat or count == max(rows):  # the first round warms up; the largest size is warmed by the others
                    times[count].append(taken)
            if repeat and time.perf_counter() - started > seconds * number / len(sizes):
                break
        curve.set(bucket_of(size, 1), {count: min(taken) for count, taken in times.items()})
    return curve


def measured(target: TargetModel, path: Path | None) -> CostCurve:
    """The curve that lies at `path`, measured and written where there is none; None measures without keeping."""
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
    """Changes with what changes the curve: model, dtype, device, threads, versions, rows that take other kernels."""
    device = torch.cuda.get_device_name(target.device) if target.device.type == "cuda" else _processor()
    sizes = (target.layers, target.vocab_size, target.packed, packed_linear.MOST, attention.MOST)
    facts = (model, sizes, target.dtype, device, torch.get_num_threads(), torch.__version__)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _time(target: TargetModel, cached: int, rows: int) -> float:
    cache = target.new_cache(cached + rows)
    cache.assume(cached)
    tree = DraftTree.chain([0] * (rows - 1), [TokenSource("calibration")] * (rows - 1))
    target.wait()
    started = time.perf_counter()
    target.forward_tree([TreePass(cache, 0, tree)])[0].logits.argmax(-1).tolist()
    return time.perf_counter() - started
