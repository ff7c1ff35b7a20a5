"""One answer measured: what it says, what it cost. Knows the engine; knows no benchmark."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from decoder.bench.specs import make_from_spec, split_exact
from decoder.engine import Engine
from decoder.params import SamplingParams


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer of one mode.

    Attributes:
        prefill_s: seconds until the first token is there.
        decode_s: seconds after it.
        steps: target passes after prefill.
        copied: tokens accepted from copies.
        near_ties, near_ties_changed: choices that a strict answer made again, and those that then fell otherwise.
    """

    tokens: list[int]
    finish_reason: str
    prefill_s: float
    decode_s: float
    steps: int
    drafted: int
    accepted: int
    copied: int
    near_ties: int = 0
    near_ties_changed: int = 0


def measure(engine: Engine, prompt_ids: list[int], params: SamplingParams, drafter: str) -> Measured:
    """Generate one answer and time it. Every step ends with its tokens on the host, so wall time is complete.

    A drafter's option `exact=strict` asks for a strict answer.
    """
    copied = 0
    drafter, exact = split_exact(drafter)
    params = replace(params, exact=exact)
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
        near_ties=stats.near_ties,
        near_ties_changed=stats.near_ties_changed,
    )


def first_difference(answer: list[int], plain: list[int]) -> int | None:
    """Index of the first token that differs (the shorter's end where one begins the other), None for equal answers."""
    if answer == plain:
        return None
    for index, (ours, theirs) in enumerate(zip(answer, plain, strict=False)):
        if ours != theirs:
            return index
    return min(len(answer), len(plain))
