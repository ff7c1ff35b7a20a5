"""What is kept of one measured answer. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer of one mode.

    Attributes:
        prefill_s: seconds until the first token is there.
        decode_s: seconds after it.
        steps: target passes after the first, which holds the prompt.
        copied: tokens accepted from copies.
        near_ties, near_ties_changed: choices that a strict answer made again, and those that then fell otherwise.
        first: tokens that the first pass chose; more than 1 where it held drafts.
        draft_ms, verify_ms: of decode_s, drafting and bookkeeping, and target passes; both 0 where nobody timed them.
        by_source: drafter -> [tokens drafted, tokens accepted].
        by_kind: what was copied from -> tokens accepted: kinds of prompt parts (`Chat.segments`), "answer" for the
            answer itself.
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
    def seconds_a_token(self) -> float | None:
        """Decode time over the tokens behind the first pass; None where there is none."""
        behind = len(self.tokens) - self.first
        return self.decode_s / behind if behind > 0 and self.decode_s > 0 else None
