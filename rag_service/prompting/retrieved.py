"""The passages retrieved for a question, as prompts are built from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The search and its passages.

    Attributes:
        query: the text that was searched for; None without a search.
        passages: best first, in the form that jobs carry.
        signals: the `margin` of the search (`retriever/search/standout.py`), if it gave one.
        rewrite_ms: time of rewriting the question; None if it was not tried.
    """

    query: str | None = None
    passages: list[dict[str, Any]] = field(default_factory=list)
    rewrite_ms: float | None = None
    signals: dict[str, float] = field(default_factory=dict)
