"""A prompt's segments as chat messages.

Only segments of kind `template` are control text: they open and close messages (ChatML). Contents are never scanned, so
what looks like control text in a document stays the text it is. Knows segments; knows no server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.broker.messages import Segment

OPENS = re.compile(r"<\|im_start\|>([a-z]+)\n?")
CLOSES = "<|im_end|>"

Message = dict[str, str]
"""`role` and `content`."""


def chat_messages(segments: Sequence[Segment]) -> list[Message]:
    """The messages of a prompt, without the last one's opening, which asks the model for its answer.

    Raises:
        ValueError: a segment's control text is not ChatML.
    """
    messages: list[Message] = []
    role: str | None = None
    content: list[str] = []
    for segment in segments:
        if segment.kind != "template":
            if role is None:
                raise ValueError(f"a segment of kind {segment.kind!r} stands outside of the prompt's messages")
            content.append(segment.text)
            continue
        rest = segment.text
        while rest:
            if role is None:
                opening = OPENS.search(rest)
                if opening is None:
                    break
                role, rest = opening[1], rest[opening.end() :]
                continue
            written, closing, rest = rest.partition(CLOSES)
            content.append(written)
            if closing:
                messages.append({"role": role, "content": "".join(content)})
                role, content = None, []
    return messages
