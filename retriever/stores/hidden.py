"""Names of collections that are not complete yet. They begin with a dot, as no other name does, so nobody sees them."""

from __future__ import annotations

import re

_HIDDEN = re.compile(r"\.(?:copy|reindex)-(.+)")


def copied(name: str) -> str:
    """Of a copy that is to have this name."""
    return f".copy-{name}"


def reindexed(name: str) -> str:
    """Of the index that is built beside this collection; for a moment after the exchange, of the old one."""
    return f".reindex-{name}"


def shown(name: str) -> str:
    """The name of a collection once it is complete."""
    hidden = _HIDDEN.fullmatch(name)
    return hidden[1] if hidden else name
