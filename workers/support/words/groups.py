"""Groups of people that a sentence has numbers for: "Everyone may take five bags; members may take eight."

Knows words of English, German, Dutch and Spanish; knows no passages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.support.words.numbers import forms
from workers.support.words.polarity import words_of

_GROUPS_IN_LINES = """
    member members mitglied mitglieder mitgliedern lid leden miembro miembros socio socios
    nonmember nonmembers nichtmitglied nichtmitglieder nichtmitgliedern nietlid nietleden
    adult adults erwachsene erwachsener erwachsenen volwassene volwassenen adulto adultos
    child children kids kind kinder kindern kinderen niño niños
    student students studierende studierenden studenten schüler schülern student studenten leerlingen estudiantes
    senior seniors senioren rentner rentnern gepensioneerden ouderen jubilados
    teacher teachers lehrer lehrerin lehrern docent docenten profesores
    guest guests gast gäste gästen gasten invitados
    volunteer volunteers freiwillige freiwilligen vrijwilliger vrijwilligers voluntarios
    resident residents bewohner bewohnern bewoners
    family families familie familien families familias
    other others everyone everybody anyone andere anderen anderer jeder alle übrige übrigen
    other iedereen overigen todos otros
"""
_GROUPS = {word: line.split()[0] for line in _GROUPS_IN_LINES.strip().splitlines() for word in line.split()}
_PART = re.compile(r"[;,:]\s+|\s+(?:and|but|or|und|aber|oder|en|maar|of|y|pero)\s+")


def counts_for_another(said: Sequence[str], asked: Sequence[str], text: str) -> bool:
    """Whether a sentence has the number of a claim for another group of people than was asked about.

    A part of a sentence that names no group may be about one that was named before, and about none that comes later.

    Args:
        said, asked: words of the claim and the question, as `words_of` gives them.
        text: the sentence.
    """
    wanted = {_GROUPS[word] for word in asked if word in _GROUPS}
    own = forms(said) - forms(asked)
    if not (wanted and own):
        return False
    parts = [words_of(part) for part in _PART.split(text)]
    counting = [number for number, part in enumerate(parts) if forms(part)]
    holding = [number for number in counting if not own.isdisjoint(forms(parts[number]))]
    if len(counting) < 2 or len(holding) != 1:
        return False
    here = {_GROUPS[word] for word in parts[holding[0]] if word in _GROUPS}
    theirs = [number for number in counting if any(_GROUPS.get(word) in wanted for word in parts[number])]
    if not theirs or not wanted.isdisjoint(here):
        return False
    return bool(here) or theirs[0] > holding[0]
