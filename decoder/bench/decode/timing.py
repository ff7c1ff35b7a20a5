"""One answer of one mode, timed. Knows the engine; knows no benchmark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field, replace

from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.drafts.tree import TokenSource
from decoder.engine import Engine
from decoder.recording.specs import make_from_spec, split_exact
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment

OWN = "answer"
UNTAGGED = "prompt"
EARLIER = "conversation"
"""Keys of `TimedAnswer.by_kind`: the answer itself, a prompt without segments, earlier answers."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """One answer of one mode. Plain data; the fields are those of the JSON lines.

    Attributes:
        prefill_s: seconds until the first token.
        decode_s: seconds from the first token to the end.
        steps: target passes after the first one, which processes the prompt.
        copied: accepted tokens that were copies.
        near_ties, near_ties_changed: near-ties that a strict answer decided again, and how many changed the token.
        first: tokens that the first pass chose; more than 1 if it verified drafts.
        draft_ms, verify_ms: parts of decode_s: drafting and bookkeeping, target passes. Both are 0 if not timed.
        by_source: drafter -> [drafted tokens, accepted tokens].
        by_kind: source of a copy -> accepted tokens. Sources are the kinds of prompt segments (`Chat.segments`) and
            "answer" for the answer itself.
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
    first: int = 1
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    by_source: dict[str, list[int]] = field(default_factory=dict)
    by_kind: dict[str, int] = field(default_factory=dict)

    @property
    def later_tokens(self) -> int:
        """Tokens after those of the first pass."""
        return len(self.tokens) - self.first

    @property
    def seconds_a_token(self) -> float | None:
        """Decode time per token after the first pass; None if there is no such token."""
        return self.decode_s / self.later_tokens if self.later_tokens > 0 and self.decode_s > 0 else None


def measure(
    engine: Engine,
    prompt_ids: list[int],
    params: SamplingParams,
    drafter: str,
    *,
    shared: SharedPrefill | None = None,
    segments: Ids[PromptSegment] = (),
) -> TimedAnswer:
    """Generate one answer and time it. Every step ends with its tokens on the host, so wall time is complete.

    Args:
        drafter: a drafter spec; its option `exact=strict` requests a strict answer.
        shared: the prompt's prefill; its time is added to the prefill time.
        segments: the prompt's segments, as for `Engine.start`; `TimedAnswer.by_kind` counts by them.
    """
    copies: list[TokenSource] = []
    drafter, exact = split_exact(drafter)
    sequence = engine.start(
        prompt_ids, replace(params, exact=exact), drafter=make_from_spec(drafter), segments=segments
    )
    if shared is not None:
        shared.copy_to(sequence)
    started = time.perf_counter()
    engine.prefill(sequence)
    first = time.perf_counter()
    stats = sequence.stats
    draft_ms, verify_ms = stats.ms["draft"], stats.ms["verify"]
    while not sequence.finished:
        step = engine.step([sequence])[0]
        copies += [source for source in step.sources if source is not None and source.offset is not None]
    ended = time.perf_counter()
    return TimedAnswer(
        tokens=sequence.tokens,
        finish_reason=str(sequence.finish_reason),
        prefill_s=first - started + (shared.seconds if shared is not None else 0.0),
        decode_s=ended - first,
        steps=stats.steps,
        drafted=stats.drafted,
        accepted=stats.accepted,
        copied=len(copies),
        near_ties=stats.near_ties,
        near_ties_changed=stats.near_ties_changed,
        draft_ms=round(stats.ms["draft"] - draft_ms, 3),
        verify_ms=round(stats.ms["verify"] - verify_ms, 3),
        by_source={name: [count.drafted, count.accepted] for name, count in stats.by_source.items()},
        by_kind=dict(Counter(_kind(source, segments) for source in copies)),
    )


def _kind(source: TokenSource, segments: Ids[PromptSegment]) -> str:
    if source.segment is None:
        return OWN
    kind = segments[source.segment].kind if segments else UNTAGGED
    return EARLIER if kind == "answer" else kind


def first_difference(answer: list[int], plain: list[int]) -> int | None:
    """Index of the first differing token; the shorter length if one answer begins the other; None if they are equal."""
    if answer == plain:
        return None
    pairs = enumerate(zip(answer, plain, strict=False))
    return next((index for index, (ours, theirs) in pairs if ours != theirs), min(len(answer), len(plain)))
