"""What numbers are for each of: ten euros a person are not ten euros a booking. Knows words; knows no sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_UNITS_IN_LINES = """
    person people head adult participant guest persoon hoofd volwassene deelnemer gast kopf erwachsener teilnehmer
    group groep gruppe class klas klasse
    booking reservation order reservering boeking bestelling buchung reservierung bestellung
    night nacht
    day dag tag
    week woche
    month maand monat kalendermonat
    year jaar jahr kalenderjahr
    hour uur stunde std
    room kamer zimmer raum
    vehicle car auto voertuig fahrzeug wagen
"""
_UNITS = {word: line.split()[0] for line in _UNITS_IN_LINES.strip().splitlines() for word in line.split()}
"""Words for what numbers are for each of, as the first of those for the same."""
_PER = frozenset(("per", "pro"))
_GERMAN = "je"
"""It is "you" in Dutch."""


def is_per_another(said: Sequence[str], there: Sequence[str], asked: Sequence[str], language: str) -> bool:
    """Whether a claim is for each of something, and a sentence, which does not name that, for each of something else.

    Units that are not known here may be others for the same, and decide nothing.

    Args:
        said, there, asked: words of the claim, the sentence and the question, as `words_of` gives them.
        language: of the question, an ISO 639-1 code.
    """
    claimed, stated = _each(said, language), _each(there, language)
    if None in claimed | stated or not (claimed and stated and any(word[0].isdigit() for word in said)):
        return False
    known = {_UNITS.get(word) for word in (*there, *asked)}
    return claimed.isdisjoint(stated | known)


def _each(words: Sequence[str], language: str) -> set[str | None]:
    """The units behind "per"; None for one that is not known."""
    per = _PER | {_GERMAN} if language == "de" else _PER
    return {_UNITS.get(behind) for before, behind in pairwise(words) if before in per}
