"""Attribution: which spans of an answer were copied, and from where. PLD+ (arXiv 2412.01447), appendix D.

Knows tokens and the sources that drafters recorded; knows no model and no text. Citations do not depend on it:
attribution shows where the drafter copied from, and an answer without speculation has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from decoder.drafts.tree import TokenSource

MIN_TOKENS = 2
"""The shortest span to report; the paper's best threshold."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """One copied span: answer tokens [answer_start, answer_end) equal the segment's tokens from `offset` on.

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
    """Group copied tokens into spans that are contiguous in the answer and in the source.

    Args:
        tokens: the answer.
        sources: one per token, as in `Step.sources`; None for the target's own tokens.
        segments: the tokens of the segments that sources name. With them, a token of the target's own next to copied
            tokens joins their span if it equals the source's token at that place. Every step ends with such a token,
            and a copy starts after the token that was looked up. Without them, only drafted tokens count.
        min_tokens: the shortest span to return.

    Returns:
        spans in answer order, not overlapping.

    Raises:
        ValueError: tokens and sources differ in length.
    """
    if len(tokens) != len(sources):
        raise ValueError(f"{len(tokens)} tokens have {len(sources)} sources; give one source per token")
    spans: list[Attribution] = []
    for i, source in enumerate(sources):
        last = spans[-1] if spans and spans[-1].answer_end == i else None
        if source is None or source.offset is None:
            if last is not None and _equals_source(tokens, segments, last.segment, last.offset + last.tokens, i):
                spans[-1] = replace(last, answer_end=i + 1)
        elif last is not None and (last.segment, last.offset + last.tokens) == (source.segment, source.offset):
            spans[-1] = replace(last, answer_end=i + 1)
        else:
            free = i > 0 and last is None
            before = int(free and _equals_source(tokens, segments, source.segment, source.offset - 1, i - 1))
            spans.append(Attribution(i - before, i + 1, source.segment, source.offset - before))
    return [span for span in spans if span.tokens >= min_tokens]


def _equals_source(
    tokens: Sequence[int], segments: Sequence[Sequence[int]], segment: int | None, offset: int, answer: int
) -> bool:
    """Whether the token at `offset` of a segment (None: of the answer so far) exists and equals tokens[answer]."""
    if not segments:
        return False
    source = tokens[:answer] if segment is None else segments[segment] if segment < len(segments) else ()
    return 0 <= offset < len(source) and source[offset] == tokens[answer]
