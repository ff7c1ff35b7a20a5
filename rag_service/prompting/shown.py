"""Which passages the earlier turns of a prompt show. Pure.

A passage is told by its document and its text: a document that was replaced gives the same chunk another text, and one
that grew at its beginning gives the same text another chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workers.broker.messages import TurnRecord

Passage = Mapping[str, Any]
"""A passage in the form that jobs carry: the fields of `passages[]`."""
PassageText = tuple[str | None, str, str]
"""Collection, document id, text."""


def text_of(passage: Passage) -> PassageText:
    return passage.get("collection"), passage["document_id"], passage["text"]


def shown_in(turns: Iterable[TurnRecord]) -> set[PassageText]:
    """The passages that the turns added to the prompt, not those that they found there."""
    shown = set()
    for turn in turns:
        retrieved = sorted(turn.passages, key=lambda passage: bool(passage.get("earlier")), reverse=True)
        by_chunk = {(passage.get("collection"), passage["chunk_id"]): passage for passage in retrieved}
        for segment in turn.segments:
            passage = by_chunk.get((segment.collection, segment.chunk_id))
            if segment.kind == "passage" and passage is not None:
                shown.add(text_of(passage))
    return shown
