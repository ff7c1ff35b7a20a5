"""A note on an answer that clients tell from others by its text."""

from __future__ import annotations

DOUBTFUL = (
    "The answer that this text is made from has a warning: the passages probably do not state it. Check it against the "
    "documents."
)


def passes_on(note: str | None) -> bool:
    """Whether a note passes on the warning of the answer that a text is made from, perhaps behind another remark."""
    return note is not None and note.endswith(DOUBTFUL)
