"""What retrieval found for a question, as prompts are built from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Found:
    """What was looked for, and what was found.

    Attributes:
        query: None where nothing was looked for.
        passages: best first, as they travel in jobs.
        rewrite_ms: that rewriting the question took; None where it was not tried.
    """

    query: str | None = None
    passages: list[dict[str, Any]] = field(default_factory=list)
    rewrite_ms: float | None = None
