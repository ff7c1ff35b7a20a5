"""A job's segments as token ids.

Knows segments and the tokenizer; knows no engine and no Redis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decoder import PromptSegment
from workers.broker.messages import Segment
from workers.tokens.tokenizer import Tokens

COPIED_LIKE = {"edited": "answer", "notes": "passage"}
"""Kinds of segments that drafters treat as others: answers of earlier edits are part of the conversation."""


def assemble(
    tokens: Tokens,
    segments: Sequence[Segment],
    edited: int | None = None,
    passages: Mapping[str, Sequence[int]] | None = None,
) -> tuple[list[int], list[PromptSegment]]:
    """The prompt's ids and its segments' lengths, one for each segment of the job, in order.

    Control text is tokenized with control tokens, content without; a segment's own ids are used as they are.

    Args:
        edited: index of the answer under edit; the drafter begins to copy there.
        passages: ids of passages' texts; missing ones are tokenized.
    """
    prompt: list[int] = []
    parts: list[PromptSegment] = []
    for index, segment in enumerate(segments):
        ids: Sequence[int]
        if segment.ids is not None:
            ids = segment.ids
        elif segment.kind == "template":
            ids = tokens.encode_template(segment.text)
        else:
            ids = (passages or {}).get(segment.text) or tokens.encode_content(segment.text).ids
        prompt += ids
        kind = COPIED_LIKE.get(segment.kind, segment.kind)
        parts.append(PromptSegment("edited" if index == edited else kind, len(ids), segment.key))
    return prompt, parts
