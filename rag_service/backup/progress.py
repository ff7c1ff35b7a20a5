"""How far a backup or a restore is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], object]
"""Told what is done now, how much of it is done, and of how much; None if that is not known."""


def silent(what: str, done: int, total: int | None) -> None:
    """For those who do not want to know."""
