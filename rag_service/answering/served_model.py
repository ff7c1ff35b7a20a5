"""The target model as people see it: its name, and whether it is a toy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from decoder.catalogue import card_of
from rag_service.settings import Settings


def served_name(settings: Settings) -> str:
    """Of the target model: as it is set, or the folder's name. With a model server, of its model."""
    return short_name(_model(settings))


def served_names(settings: Settings) -> frozenset[str]:
    """Every name by which requests may ask for the target model."""
    return frozenset({_model(settings), served_name(settings)})


def short_name(model: str) -> str:
    """A model as it is set, or the folder's name."""
    path = Path(model).expanduser()
    return path.name if path.is_absolute() or path.is_dir() else model


def described(settings: Settings) -> dict[str, Any]:
    """Name, `toy` (for tests only), note and `dtype` of the target model; outside the catalogue the note is empty.

    Of a model server's model the number format is not known, and `engine` is `openai`.
    """
    name = served_name(settings)
    if settings.engine == "openai":
        return {"name": name, "toy": False, "note": "", "dtype": None, "engine": "openai"}
    card = card_of(name)
    toy, note = card is not None and card.toy, card.note if card else ""
    return {"name": name, "toy": toy, "note": note, "dtype": settings.number_format}


def _model(settings: Settings) -> str:
    return settings.endpoints[0].model if settings.endpoints else settings.model
