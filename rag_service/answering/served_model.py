"""The target model as people see it: its name, and whether it is a toy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from decoder.catalogue import card_of
from rag_service.settings import Settings


def served_name(settings: Settings) -> str:
    """Of the target model: as it is set, or the folder's name."""
    return short_name(settings.model)


def short_name(model: str) -> str:
    """A model as it is set, or the folder's name."""
    path = Path(model).expanduser()
    return path.name if path.is_absolute() or path.is_dir() else model


def described(settings: Settings) -> dict[str, Any]:
    """Name, `toy` (for tests only), note and `dtype` of the target model; outside the catalogue the note is empty."""
    name = served_name(settings)
    card = card_of(name)
    toy, note = card is not None and card.toy, card.note if card else ""
    return {"name": name, "toy": toy, "note": note, "dtype": settings.number_format}
