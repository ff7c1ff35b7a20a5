"""How a request names one or several collections: one text, names with commas between them. Pure."""

from __future__ import annotations

MOST_COLLECTIONS = 16
"""Most collections that one question searches."""


def joined(names: object) -> object:
    """One text from a name, from names with commas between them, or from a list of names. Anything else stays.

    Raises:
        ValueError: there is an empty name, or there are too many.
    """
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        names = ",".join(names) if names else " "
    if not isinstance(names, str) or not names:
        return names
    given = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if not all(given):
        raise ValueError("a name is empty; give the names of collections with commas between them")
    if len(given) > MOST_COLLECTIONS:
        raise ValueError(f"there are {len(given)} collections; one question searches at most {MOST_COLLECTIONS}")
    return ",".join(given)


def split(collection: str) -> list[str]:
    """The names in a text of `joined`."""
    return collection.split(",")
