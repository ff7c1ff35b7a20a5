"""How long a linear layer takes in each number format on this processor: what `rag doctor` recommends a format by.

Knows layers and the clock; knows no model. The layers hold more weights than a cache, about as large as those of a
model of a billion weights, so that a product of one row is limited by memory, as in a model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from decoder import dtypes
from decoder.model.linear.blocks import block_product
from decoder.model.linear.blocks.block_linear import BlockLinear
from decoder.model.linear.blocks.block_matrix import BlockMatrix
from decoder.model.linear.blocks.file_blocks import BLOCK, BYTES
from decoder.model.linear.int8.int8_linear import Int8Linear
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.packed_linear import free_bytes, pack, packed_passes
from decoder.weights.gguf_blocks import BlockFormat

ROWS = (1, 8, 64)
"""Rows of a pass: plain decoding, a short draft, a long copy or a prompt."""
FORMATS = ("float32", "bfloat16", "int8")
"""Those of any model. int4 is timed too where a model can run in it."""
_SIZE = 3072
_LAYERS = 16
_REPEATS = 5

NEEDED_BYTES = 3 * 10**9
"""Free memory without which nothing is timed."""

Times = Mapping[str, Mapping[int, float]]
"""Number format -> rows -> seconds."""


@dataclass(frozen=True, slots=True)
class FormatTimes:
    """What was measured.

    Attributes:
        times: seconds, the least of all rounds.
        spread: seconds of the slowest round by those of the fastest; far above 1, something else ran beside some.
    """

    times: Times
    spread: float

    @property
    def fastest(self) -> str:
        """The format with the least geometric mean over the numbers of rows."""
        return min(self.times, key=self._mean)

    def gain(self, over: str) -> float:
        """How many times as fast as the format `over` the fastest one is, as a geometric mean."""
        return self._mean(over) / self._mean(self.fastest)

    def _mean(self, dtype: str) -> float:
        """Seconds: the geometric mean over the numbers of rows."""
        times = self.times[dtype].values()
        return math.exp(math.fsum(math.log(seconds) for seconds in times) / len(times))


def time_formats(blocks: bool = False) -> FormatTimes | None:
    """Times of all formats; None where memory is short.

    Args:
        blocks: whether the model can run as int4.
    """
    if free_bytes() < NEEDED_BYTES:
        return None
    return measure((*FORMATS, dtypes.INT4) if blocks and block_product.available() else FORMATS)


@torch.inference_mode()
def measure(formats: tuple[str, ...] = FORMATS) -> FormatTimes:
    """Time 150 million weights in each format: the least of some rounds, in which the formats take turns, so that a
    slow moment affects all of them. It takes seconds."""
    layers = {dtype: _layers(dtype) for dtype in formats}
    times: dict[str, dict[int, float]] = {dtype: dict.fromkeys(ROWS, math.inf) for dtype in formats}
    rounds = [0.0] * _REPEATS
    for repeat in range(-1, _REPEATS):  # the first round warms up
        for rows in ROWS:
            for dtype, made in layers.items():
                seconds = _seconds(made, rows)
                if repeat >= 0:
                    rounds[repeat] += seconds
                    times[dtype][rows] = min(times[dtype][rows], seconds)
    return FormatTimes(times, max(rounds) / min(rounds))


def _layers(dtype: str) -> list[torch.nn.Linear]:
    stored = torch.float32 if dtype == "float32" else torch.bfloat16
    weight = torch.linspace(-1.0, 1.0, _SIZE * _SIZE).view(_SIZE, _SIZE)
    if dtype == dtypes.INT4:
        return [_blocks("Q6_K" if number % 3 == 2 else "Q4_K", stored) for number in range(_LAYERS)]  # as in Q4_K_M
    if dtype == dtypes.INT8:
        return [Int8Linear(weight, None, stored) for _ in range(_LAYERS)]
    layers = torch.nn.ModuleList(torch.nn.Linear(_SIZE, _SIZE, bias=False, device="meta") for _ in range(_LAYERS))
    for layer in layers:
        layer.weight = torch.nn.Parameter(weight.to(stored, copy=True), requires_grad=False)
    pack(layers)
    return [layer for layer in layers if isinstance(layer, torch.nn.Linear)]


def _blocks(kind: BlockFormat, stored: torch.dtype) -> BlockLinear:
    data = torch.zeros(_SIZE, _SIZE // BLOCK * BYTES[kind], dtype=torch.uint8)
    return BlockLinear(BlockMatrix.from_file(data, kind), None, stored)


def _seconds(layers: list[torch.nn.Linear], rows: int) -> float:
    """Seconds of all layers."""
    first = layers[0]
    inputs = torch.ones(rows, _SIZE, dtype=first.dtype if isinstance(first, IntegerLinear) else first.weight.dtype)
    started = time.perf_counter()
    with packed_passes():
        for layer in layers:
            layer(inputs)
    return time.perf_counter() - started
