"""Attribution: which spans of an answer were copied, and from where. PLD+ (arXiv 2412.01447), appendix D.

Knows tokens and the sources that drafters gave them; knows no model and no text. What an answer cites does not depend
on this: it says where the drafter pointed, and without speculation nothing points anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoder.drafts.tree import TokenSource

MIN_TOKENS = 2
"""Shorter spans are left out; the paper's best threshold."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Tokens answer_start..answer_end of the answer are tokens offset.. of a segment.

    `segment` is as in `TokenSource`: an index into the prompt's segments, None for the answer itself.
    """

    answer_start: int
    answer_end: int
    segment: int | None
    offset: int

    @property
    def tokens(self) -> int:
        return self.answer_end - self.answer_start


def attribute(
    tokens: Sequence[int],
    sources: Sequence[TokenSource | None],
    segments: Sequence[Sequence[int]] = (),
    min_tokens: int = MIN_TOKENS,
) -> list[Attribution]:
    """Group copied tokens into spans that run on both sides.

    Args:
        tokens: the answer.
        sources: one a token, as `Step.sources` gives them; None for the target's own tokens.
        segments: the segments that sources name, as tokens. With them the target's own tokens before, between or
            behind copied ones belong to the span where they equal the source's tokens there: every step ends with such
            a token, and a copy starts behind the token that was looked up. Without them only drafted tokens count.
        min_tokens: shorter spans are left out.

    Returns:
        spans in answer order, not overlapping.

    Raises ValueError for tokens and sources of different lengths.
    """
    if len(tokens) != len(sources):
        raise ValueError(f"{len(tokens)} tokens have {len(sources)} sources; give one a token")
    spans: list[Attribution] = []
    for i, source in enumerate(sources):
        last = spans[-1] if spans and spans[-1].answer_end == i else None
        if source is None or source.offset is None:
            if last is not None and _holds(tokens, segments, last.segment, last.offset + last.tokens, i):
                spans[-1] = Attribution(last.answer_start, i + 1, last.segment, last.offset)
        elif last is not None and (last.segment, last.offset + last.tokens) == (source.segment, source.offset):
            spans[-1] = Attribution(last.answer_start, i + 1, last.segment, last.offset)
        else:
            free = i > 0 and last is None
            before = int(free and _holds(tokens, segments, source.segment, source.offset - 1, i - 1))
            spans.append(Attribution(i - before, i + 1, source.segment, source.offset - before))
    return [span for span in spans if span.tokens >= min_tokens]


def _holds(
    tokens: Sequence[int], segments: Sequence[Sequence[int]], segment: int | None, offset: int, answer: int
) -> bool:
    """Whether a place in a segment (or earlier in the answer) is there and holds the answer's token."""
    if not segments:
        return False
    source = tokens[:answer] if segment is None else segments[segment] if segment < len(segments) else ()
    return 0 <= offset < len(source) and source[offset] == tokens[answer]
