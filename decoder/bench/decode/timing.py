"""One answer measured: what it says, what it cost. Knows the engine; knows no benchmark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence as Ids
from dataclasses import replace

from decoder.bench.decode.measurement import Measured
from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.drafts.tree import TokenSource
from decoder.engine import Engine
from decoder.recording.specs import make_from_spec, split_exact
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment

OWN = "answer"
UNTAGGED = "prompt"
EARLIER = "conversation"
"""What `Measured.by_kind` calls the answer itself, a prompt without segments, earlier answers."""


def measure(
    engine: Engine,
    prompt_ids: list[int],
    params: SamplingParams,
    drafter: str,
    *,
    shared: SharedPrefill | None = None,
    segments: Ids[PromptSegment] = (),
) -> Measured:
    """Generate one answer and time it. Every step ends with its tokens on the host, so wall time is complete.

    A drafter's option `exact=strict` asks for a strict answer.

    Args:
        shared: the prompt, processed before; its time is added to the prefill time.
        segments: the prompt's parts, as `Engine.start` takes them; `Measured.by_kind` counts by them.
    """
    copied: list[TokenSource] = []
    drafter, exact = split_exact(drafter)
    params = replace(params, exact=exact)
    sequence = engine.start(prompt_ids, params, drafter=make_from_spec(drafter), segments=segments)
    if shared is not None:
        shared.give(sequence)
    started = time.perf_counter()
    engine.prefill(sequence)
    first = time.perf_counter()
    stats = sequence.stats
    draft_ms, verify_ms = stats.ms["draft"], stats.ms["verify"]
    while not sequence.finished:
        step = engine.step([sequence])[0]
        copied += [source for source in step.sources if source is not None and source.offset is not None]
    ended = time.perf_counter()
    return Measured(
        tokens=sequence.tokens,
        finish_reason=str(sequence.finish_reason),
        prefill_s=first - started + (shared.seconds if shared is not None else 0.0),
        decode_s=ended - first,
        steps=stats.steps,
        drafted=stats.drafted,
        accepted=stats.accepted,
        copied=len(copied),
        near_ties=stats.near_ties,
        near_ties_changed=stats.near_ties_changed,
        draft_ms=round(stats.ms["draft"] - draft_ms, 3),
        verify_ms=round(stats.ms["verify"] - verify_ms, 3),
        by_source={name: [count.drafted, count.accepted] for name, count in stats.by_source.items()},
        by_kind=dict(Counter(_kind(source, segments) for source in copied)),
    )


def _kind(source: TokenSource, segments: Ids[PromptSegment]) -> str:
    if source.segment is None:
        return OWN
    kind = segments[source.segment].kind if segments else UNTAGGED
    return EARLIER if kind == "answer" else kind


def first_difference(answer: list[int], plain: list[int]) -> int | None:
    """Index of the first token that differs (the shorter's end where one begins the other), None for equal answers."""
    if answer == plain:
        return None
    for index, (ours, theirs) in enumerate(zip(answer, plain, strict=False)):
        if ours != theirs:
            return index
    return min(len(answer), len(plain))
