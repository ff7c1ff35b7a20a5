"""Units of numbers: two years are no two fire extinguishers, and 5 percent are no 5 euros.

Knows words of English, German, Dutch and Spanish; knows no sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.support.words.numbers import forms

WITHIN = 4
"""Words behind a number that may say what it counts."""
_HOW_MANY = frozenset(("many", "viele", "wieviele", "hoeveel", "cuántos", "cuántas"))
_UNITS_IN_LINES = """
    year years jahr jahre jahren jaar jaren año años
    month months monat monate monaten maand maanden mes meses
    week weeks woche wochen weken semana semanas
    day days tag tage tagen dag dagen día días
    hour hours stunde stunden uur uren hora horas
    minute minutes minuten minuut minutos minuto
    second seconds sekunde sekunden seconde seconden segundos
    euro euros eur
    pound pounds pfund gbp
    dollar dollars usd
    franc francs franken chf
    percent prozent procent
    metre metres meter meters metros
    kilometre kilometres kilometer kilometers km
    kilogram kilograms kilogramm kilo kilos kg
    litre litres liter liters litros
    ampere amperes amp amps
    degree degrees grad graden
"""
_GROUPS = {word: line.split()[0] for line in _UNITS_IN_LINES.strip().splitlines() for word in line.split()}


def counts_another(
    said: Sequence[str], there: Sequence[str], asked: Sequence[str], content: Callable[[Sequence[str]], Sequence[str]]
) -> bool:
    """Whether a sentence has a number of a claim as another measure only, or, where it was asked how many there are, of
    something else: "two years" or "two dogs" for "two fire extinguishers".

    Args:
        said, there, asked: words of the claim, the sentence and the question, as `words_of` gives them.
        content: the content words among words, in a form in which they can be compared.
    """
    counting = not _HOW_MANY.isdisjoint(asked)
    for number, behind in _counted(said):
        unit = _GROUPS.get(behind[0]) if behind else None
        if not behind or (unit is None and behind[0] not in asked):
            continue
        here = [after for one, after in _counted(there) if not forms([one]).isdisjoint(forms([number]))]
        units = [_GROUPS.get(after[0]) if after else None for after in here]
        if here and all(other is not None and other != unit for other in units):
            return True
        claimed = set(content(behind[:1]))
        if (
            counting
            and here
            and all(after and content(after[:1]) and claimed.isdisjoint(content(after)) for after in here)
        ):
            return True
    return False


def _counted(words: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Each number with the words behind it."""
    return [(word, words[n + 1 : n + 1 + WITHIN]) for n, word in enumerate(words) if forms([word])]
