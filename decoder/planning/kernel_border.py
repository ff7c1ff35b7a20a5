"""Measures from how many rows on the wider kernel of int8 layers is the faster one, and in which format it multiplies.

Knows int8 layers and the clock; knows no passes. The layers are timed, not whole passes: attention takes the same time
whichever kernel the layers use.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from decoder.model.linear.int8_linear import Int8Linear, Kernels, multiplies_bfloat16
from decoder.model.target import TargetModel

log = logging.getLogger(__name__)

ROWS = (4, 8, 16, 32, 64, 128)
"""Rows at which both kernels are timed, until the wider one wins."""
MOST_WEIGHTS = 1 << 26
"""Weights of the timed layers, about: more than a cache holds."""
REPEATS = 3
SECONDS = 10.0
"""After this time, each kernel is timed once a number of rows."""
_FORMATS = {"bfloat16": torch.bfloat16, "float32": torch.float32}

Timer = Callable[[int], float]
"""Rows -> seconds of the timed layers."""


def border_of(few: Timer, wide: Timer, rows: Sequence[int] = ROWS) -> int:
    """The most rows at which the few-row kernel is the faster one.

    The kernels are timed at `rows`, ascending, until the wider one wins; between this count and the one before it, both
    times are taken for linear. Where it never wins, the border is the last count.
    """
    before, lead = 0, 0.0
    for count in rows:
        behind = few(count) - wide(count)
        if behind >= 0:
            share = lead / (lead + behind) if lead + behind else 1.0
            return int(before + share * (count - before)) if before else 0
        before, lead = count, -behind
    return before


@torch.inference_mode()
def measure(target: TargetModel) -> Kernels:
    """Time the kernels of a target's int8 layers, and let them use the faster one at each number of rows.

    The fastest of a few repetitions counts, and the kernels take turns, so that a slow moment affects both.

    Returns:
        what the layers share, with border and wider format as measured.

    Raises:
        ValueError: the target has no int8 layers.
    """
    kernels = target.kernels
    if kernels is None:
        raise ValueError(f"kernels are measured for int8 models, and this one is in {target.number_format}")
    layers = _sample(target)
    timed: dict[tuple[int, int, torch.dtype], float] = {}

    def seconds(rows: int, border: int, wide: torch.dtype) -> float:
        kernels.border, kernels.wide = border, wide
        inputs = [torch.ones(rows, layer.in_features, dtype=target.dtype) for layer in layers]
        started = time.perf_counter()
        for layer, given in zip(layers, inputs, strict=True):
            layer(given)
        return time.perf_counter() - started

    began = time.perf_counter()

    def fastest(rows: int, few: bool, wide: torch.dtype) -> float:
        key = rows, few * ROWS[-1], wide
        if key not in timed:
            seconds(*key)  # warms up, and makes room for the other format
            repeats = REPEATS if time.perf_counter() - began < SECONDS else 1
            timed[key] = min(seconds(*key) for _ in range(repeats))
        return timed[key]

    formats = [torch.float32]
    if target.dtype is torch.bfloat16 and multiplies_bfloat16():
        formats.append(torch.bfloat16)
    wide = min(formats, key=lambda one: fastest(64, False, one))
    border = border_of(lambda rows: fastest(rows, True, wide), lambda rows: fastest(rows, False, wide))
    kernels.border, kernels.wide = border, wide
    return kernels


def load_or_measure(target: TargetModel, path: Path | None) -> Kernels:
    """As `measure`, or as measured before: stored at `path` unless it is None."""
    kernels = target.kernels
    if kernels is not None and path is not None and path.is_file():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            kernels.border, kernels.wide = int(stored["border"]), _FORMATS[stored["wide"]]
            return kernels
        except (KeyError, TypeError, ValueError):
            path.unlink()
    log.info("measuring which int8 kernels are fast here, once; about %.0f s", SECONDS)
    kernels = measure(target)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        wide = str(kernels.wide).removeprefix("torch.")
        new.write_text(json.dumps({"border": kernels.border, "wide": wide}) + "\n", encoding="utf-8")
        new.replace(path)
    return kernels


def _sample(target: TargetModel) -> list[Int8Linear]:
    """The int8 layers of the first decoder layers, up to about MOST_WEIGHTS weights; at least one decoder layer's."""
    chosen: list[Int8Linear] = []
    for decoder_layer in target.model.get_decoder().layers:
        chosen += [module for module in decoder_layer.modules() if isinstance(module, Int8Linear)]
        if sum(layer.integers.numel() for layer in chosen) >= MOST_WEIGHTS:
            break
    return chosen
