"""A document that is too long for one prompt: prompts that ask for notes on its parts, places for the notes. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from rag_service.prompting.prompt import (
    PromptTokens,
    content_segment,
    filled,
    length,
    passage_segment,
)
from rag_service.prompting.shown import Passage
from rag_service.prompting.template import PromptTemplate
from workers.broker.messages import Segment

MOST = 16
"""Most parts of a document that are read."""
LONGEST = 4096
"""Most tokens of a part."""
NOTES = 128
"""Most tokens of the notes on a part."""


def split(
    question: str, passages: Sequence[Passage], tokens: PromptTokens, *, room: int, template: PromptTemplate
) -> tuple[list[list[Segment]], int]:
    """The prompts of the parts, and the number of passages that they hold: the first ones.

    Args:
        passages: those of the document, in order.
        room: tokens that a part's prompt may take.
    """
    frame = _prompt(question, [], tokens, template)
    most = min(room, LONGEST) - sum(length(segment, tokens) for segment in frame)
    parts: list[list[Segment]] = []
    sizes: list[int] = []
    read = 0
    for passage in passages:
        segment = passage_segment(passage, template)
        size = length(segment, tokens)
        if not parts or sizes[-1] + size > most:
            if len(parts) == MOST or size > most:
                break
            parts.append([])
            sizes.append(0)
        parts[-1].append(segment)
        sizes[-1] += size
        read += 1
    return [_prompt(question, part, tokens, template) for part in parts], read


def places(parts: Sequence[Sequence[Segment]]) -> list[Segment]:
    """An empty segment for the notes on each part."""
    return [Segment(kind="notes", key=_key(part)) for part in parts]


def _prompt(
    question: str, passages: Sequence[Segment], tokens: PromptTokens, template: PromptTemplate
) -> list[Segment]:
    asked = filled(template.notes, {"question": content_segment("question", question)})
    contents = [[content_segment("system", template.system)], [*passages, *asked]]
    segments: list[Segment] = []
    for piece in tokens.template_pieces([{"role": role, "content": ""} for role in ("system", "user")], True):
        segments += [content_segment("template", piece)] if isinstance(piece, str) else contents[piece]
    return segments


def _key(part: Sequence[Segment]) -> str:
    return hashlib.sha256("\n".join(segment.key for segment in part).encode()).hexdigest()[:32]
