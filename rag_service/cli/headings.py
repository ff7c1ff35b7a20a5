"""How passages are named for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_service.prompting.prompt import heading_line


def headings(passage: Mapping[str, Any]) -> list[str]:
    """The headings above a passage, outermost first, without the column names of a table that goes on in it."""
    found = [one for one in (passage.get("heading") or "").split(" > ") if one]
    return found[:-1] if found and " | " in found[-1] else found


def shown_heading(passage: Mapping[str, Any]) -> str:
    """Title and headings of a passage, as the model reads them but for the column names of tables."""
    return heading_line({**passage, "heading": " > ".join(headings(passage))})
