"""Times passes of one model in several number formats, by rows, and writes JSON and a table.

    python benchmarks/pass_times.py --model qwen2.5-coder-1.5b --dtypes bfloat16 int8 --json times.json

All formats are in memory at once and take turns. The table has the median and the least of the rounds. `int8:torch` is
int8 with torch's kernels where we have machine code of our own, `int8:stock-attention` with torch's attention alone.
The ratios to int8 are printed, too, as the medians of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from decoder.bench.results import environment_lines, write_json
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.load import NUMBER_FORMATS, load_target
from decoder.model.linear import tiled_linear
from decoder.model.linear.int8 import vnni
from decoder.model.pass_parts import TreePass
from decoder.model.paths import path_attention
from decoder.model.target import TargetModel
from decoder.recording.environment import environment
from decoder.sampling.greedy import greedy


def seconds(target: TargetModel, rows: int, cached: int, along_paths: bool = True) -> float:
    """One pass over a chain of `rows` rows behind `cached` tokens. Without `along_paths` torch computes attention."""
    target.along_paths = along_paths and path_attention.available(target.dtype, target.head_dim)
    cache = target.new_cache(cached + rows)
    cache.fill_with_zeros(cached)
    tree = DraftTree.chain([0] * (rows - 1), [TokenSource("timing")] * (rows - 1))
    started = time.perf_counter()
    greedy(target.forward_tree([TreePass(cache, 0, tree)])[0].logits).tolist()
    return time.perf_counter() - started


TORCH, ATTENTION = ":torch", ":stock-attention"
KERNELS = ("", TORCH, ATTENTION)
FORMATS = [one + kernels for one in NUMBER_FORMATS for kernels in KERNELS if one + kernels != f"int4{TORCH}"]


def load(options: argparse.Namespace, dtype: str) -> TargetModel:
    """A model in a format, `dtype` or `dtype:torch`."""
    with ExitStack() as patches:
        if dtype.endswith(TORCH):
            for module in (tiled_linear, vnni):
                patches.enter_context(patch.object(module, "available", lambda *_: False))
        name = dtype.partition(":")[0]
        return load_target(options.model, dtype=name, device="cpu", models_dir=options.models_dir)[0]


def ratios(times: dict[str, dict[int, list[float]]]) -> dict[str, dict[int, float]]:
    """Each format's times by those of its forms with torch's kernels, which name the line; medians of the rounds."""
    return {
        other: {
            rows: round(statistics.median(a / b for a, b in zip(all_, times[other][rows], strict=True)), 2)
            for rows, all_ in times[own].items()
        }
        for own in times
        for kernels in (TORCH, ATTENTION)
        if (other := own + kernels) in times
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Pass times by rows and number format.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--dtypes", nargs="+", choices=FORMATS, default=["bfloat16", "int8"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--cached", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    targets: dict[str, TargetModel] = {}
    for dtype in options.dtypes:  # one copy of the weights for both kinds of attention: copies differ in speed
        targets[dtype] = targets.get(dtype.removesuffix(ATTENTION)) or load(options, dtype)
        seconds(targets[dtype], max(options.rows), options.cached)  # warm-up
    times: dict[str, dict[int, list[float]]] = {dtype: {rows: [] for rows in options.rows} for dtype in targets}
    for _ in range(options.rounds):
        for rows in options.rows:
            for dtype, target in targets.items():
                times[dtype][rows].append(seconds(target, rows, options.cached, ":" not in dtype))
    formats: dict[str, Any] = {
        dtype: {
            "weights_bytes": target.nbytes,
            "packed": target.packed,
            "ms": {
                rows: {"median": round(1e3 * statistics.median(all_), 1), "least": round(1e3 * min(all_), 1)}
                for rows, all_ in times[dtype].items()
            },
        }
        for dtype, target in targets.items()
    }

    facts = environment(shlex.join(["python", *sys.argv]), cached=options.cached, rounds=options.rounds)
    found = ratios(times)
    write_json(options.json, {"environment": facts, "formats": formats, "ratios": found})
    lines = ["| format | GB | " + " | ".join(f"{rows}" for rows in options.rows) + " |"]
    lines.append("| --- | ---: |" + " ---: |" * len(options.rows))
    for dtype, entry in formats.items():
        cells = [f"{one['median']:.0f} ({one['least']:.0f})" for one in entry["ms"].values()]
        lines.append(f"| {dtype} | {entry['weights_bytes'] / 1e9:.1f} | " + " | ".join(cells) + " |")
    lines += [f"| by {other} | | " + " | ".join(map(str, by.values())) + " |" for other, by in found.items()]
    print("\n".join([*lines, "", *environment_lines(facts)]))


if __name__ == "__main__":
    main()
