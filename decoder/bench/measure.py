"""One answer measured: what it says, what it cost. Knows the engine; knows no benchmark."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from decoder import noise
from decoder.bench.specs import make_from_spec
from decoder.engine import Engine
from decoder.history import History
from decoder.params import SamplingParams
from decoder.select import penalised, warp
from decoder.target import TreePass
from decoder.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer of one mode.

    Attributes:
        prefill_s: seconds until the first token is there.
        decode_s: seconds after it.
        steps: target passes after prefill.
        copied: tokens accepted from copies.
    """

    tokens: list[int]
    finish_reason: str
    prefill_s: float
    decode_s: float
    steps: int
    drafted: int
    accepted: int
    copied: int


def measure(engine: Engine, prompt_ids: list[int], params: SamplingParams, drafter: str) -> Measured:
    """Generate one answer and time it. Every step ends with its tokens on the host, so wall time is complete."""
    copied = 0
    started = time.perf_counter()
    sequence = engine.start(prompt_ids, params, drafter=make_from_spec(drafter))
    engine.prefill(sequence)
    first = time.perf_counter()
    while not sequence.finished:
        step = engine.step([sequence])[0]
        copied += sum(source is not None and source.offset is not None for source in step.sources)
    ended = time.perf_counter()
    stats = sequence.stats
    return Measured(
        tokens=sequence.tokens,
        finish_reason=str(sequence.finish_reason),
        prefill_s=first - started,
        decode_s=ended - first,
        steps=stats.steps,
        drafted=stats.drafted,
        accepted=stats.accepted,
        copied=copied,
    )


def first_difference(answer: list[int], plain: list[int]) -> int | None:
    """Index of the first token that differs (the shorter's end where one begins the other), None for equal answers."""
    if answer == plain:
        return None
    for index, (ours, theirs) in enumerate(zip(answer, plain, strict=False)):
        if ours != theirs:
            return index
    return min(len(answer), len(plain))


def plain_margin(engine: Engine, prompt_ids: list[int], plain: list[int], index: int, params: SamplingParams) -> float:
    """By how much plain decoding preferred its token number `index` of the answer to the second best.

    The passes of plain decoding are run again up to that place: prefill, then one token each.
    """
    target = engine.target
    cache = target.new_cache(len(prompt_ids) + index + 1)
    logits = target.prefill(prompt_ids, cache).logits[0]
    history = History(prompt_ids)
    for token in plain[:index]:
        history.push(token)
        logits = target.forward_tree([TreePass(cache, token, DraftTree())])[0].logits[0]
        cache.keep([])
    return select_margin(logits, params, len(prompt_ids) + index, history)


def select_margin(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> float:
    """Best minus second best of what `select` takes the argmax of; infinite where one token is left.

    Args:
        logits: [V] raw.
        position: absolute position of the token.
    """
    scores = penalised(logits.to("cpu", torch.float64).numpy(), params, history)
    if params.temperature > 0.0:
        tokens, log_weights = warp(scores, params)
        uniforms = noise.uniform(params.seed, params.choice, position, len(scores))[tokens]
        scores = log_weights + noise.gumbel(uniforms)
    if len(scores) < 2:
        return float("inf")
    second, best = np.sort(scores)[-2:]
    return float(best - second)
