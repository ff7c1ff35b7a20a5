"""Whether the documents bear out what a rewrite added to a question that lacks nothing. Pure.

"How long is the crossing?" after a question about the Morvik ferry is about that ferry if a paragraph that tells of a
crossing tells of Morvik, too. "How long may I keep books?" after one about the Seeblick branch is about no branch if
the paragraph about books names none; "… at the Seeblick branch?" would find other passages, and small models answer
from them.

Knows words and passages; knows no search and no model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_service.prompting.rewriting.standalone import stems

ENOUGH = 0.6
"""Least weight of the question's words in a paragraph with the added name, of that in the paragraph with most. Of 52
questions about the last subject 50 have more, of 13 about something else one (docs/log.md)."""
_HEADING_CHARS = 80
_BLANK = re.compile(r"\n\s*\n")
_MARKS = re.compile(r"^#+ ")


def bears_out(completed: str, question: str, passages: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a paragraph about what was asked names what was added.

    Args:
        completed: the question with more words, such as "… on the Morvik ferry?".
        passages: found for both, with `title`, `heading` and `text`.

    Returns True if no paragraph has a word of the question.
    """
    paragraphs = [stems(text) for passage in passages for text in _paragraphs(passage)]
    seen = {stem: sum(stem in one for one in paragraphs) for stem in stems(f"{question} {completed}")}
    asked = stems(question)
    added = {stem for stem in stems(completed) - asked if seen[stem]}

    def weight(paragraph: set[str]) -> float:
        return sum(math.log1p(len(paragraphs) / seen[stem]) for stem in asked & paragraph)

    most = max(map(weight, paragraphs), default=0.0)
    if not most:
        return True
    name = min(added, key=lambda stem: (seen[stem], stem), default=None)  # the rarest says which it is
    return any(name in one and weight(one) >= ENOUGH * most for one in paragraphs)


def _paragraphs(passage: Mapping[str, Any]) -> Sequence[str]:
    """The paragraphs of a passage, each with the headings above it."""
    above = f"{passage.get('title') or ''}\n{passage.get('heading') or ''}"
    found, heading = [], ""
    for block in _BLANK.split(str(passage["text"])):
        text = block.strip()
        if "\n" not in text and (_MARKS.match(text) or (len(text) <= _HEADING_CHARS and text[-1:].isalnum())):
            heading = text
        else:
            found.append(f"{above}\n{heading}\n{text}")
    return found or [f"{above}\n{heading}"]
