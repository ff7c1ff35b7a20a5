"""How sure plain decoding was of single tokens, for answers that were made elsewhere. Knows the engine; no answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from decoder.bench.decode.divergence import plain_margins
from decoder.recording.opened import open_model
from decoder.sampling.params import SamplingParams

Place = tuple[list[int], list[int], int]
"""A prompt's ids, those of plain's greedy answer to it, and the index of one of them."""


def greedy_margins(
    model: str, places: Sequence[Place], *, dtype: str, device: str, models_dir: Path | None = None
) -> list[float]:
    """By how much plain decoding preferred each of these tokens to the second best, in logits.

    Loads the model; errors as `open_model`.
    """
    engine = open_model(model, dtype=dtype, device=device, models_dir=models_dir).engine
    margins = []
    for prompt_ids, plain, index in places:
        params = SamplingParams(max_tokens=len(plain) + 1)
        margins.append(plain_margins(engine, prompt_ids, plain, [index], params)[index])
    return margins
