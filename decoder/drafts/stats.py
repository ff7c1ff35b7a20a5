"""What one answer cost: passes, drafted and accepted tokens by source, and times. Pure counting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from decoder.drafts.tree import DraftTree, TokenSource


@dataclass(slots=True)
class SourceCount:
    drafted: int = 0
    accepted: int = 0


@dataclass(slots=True)
class DecodeStats:
    """Counts of one answer.

    Attributes:
        prompt_tokens: tokens of the prompt.
        cached_tokens: prompt tokens whose keys and values were there already.
        tokens: tokens generated here.
        resumed_tokens: tokens of the answer that were generated before, elsewhere; in no other count.
        steps: target passes after prefill.
        drafted, accepted: draft tokens proposed and accepted; bonus tokens are in neither.
        by_source: the same per drafter.
        by_segment: the same per segment copied from, numbered as in TokenSource.
        near_ties: choices of passes over several rows that strict answers left open.
        extra_passes: one-token passes that decided them; also counted in `steps`.
        near_ties_changed: those of them that then fell the other way.
        ms: milliseconds spent in prefill, draft and verify (the target pass and the walk).
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    resumed_tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    near_ties: int = 0
    extra_passes: int = 0
    near_ties_changed: int = 0
    by_source: dict[str, SourceCount] = field(default_factory=dict)
    by_segment: dict[int, SourceCount] = field(default_factory=dict)
    ms: dict[str, float] = field(default_factory=lambda: {"prefill": 0.0, "draft": 0.0, "verify": 0.0})

    @property
    def mat(self) -> float:
        """Mean accepted tokens: (tokens - 1) / target passes after prefill; plain decoding is 1.0."""
        return (self.tokens - 1) / self.steps if self.steps else 1.0

    @property
    def acceptance_rate(self) -> float:
        """accepted / drafted; 0.0 where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def plain_equivalent_steps(self) -> int:
        """Target passes plain decoding needs after prefill for the same tokens."""
        return max(self.tokens - 1, 0)

    def record(self, tree: DraftTree, accepted: Iterable[TokenSource]) -> None:
        """Count one step's tree and its accepted draft tokens."""
        self.steps += 1
        for source in tree.sources:
            self.drafted += 1
            self._of(source).drafted += 1
            if source.segment is not None:
                self.by_segment.setdefault(source.segment, SourceCount()).drafted += 1
        for source in accepted:
            self.accepted += 1
            self._of(source).accepted += 1
            if source.segment is not None:
                self.by_segment.setdefault(source.segment, SourceCount()).accepted += 1

    def _of(self, source: TokenSource) -> SourceCount:
        return self.by_source.setdefault(source.drafter, SourceCount())
