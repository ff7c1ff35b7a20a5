"""Days of the week: those that a text names, with those between the ends of a range. Knows words alone."""

from __future__ import annotations

import re

_DAYS_IN_LINES = """
    monday mondays montag montags maandag maandags maandagen lunes lundi
    tuesday tuesdays dienstag dienstags dinsdag dinsdags dinsdagen martes mardi
    wednesday wednesdays mittwoch mittwochs woensdag woensdags woensdagen miércoles mercredi
    thursday thursdays donnerstag donnerstags donderdag donderdags donderdagen jueves jeudi
    friday fridays freitag freitags vrijdag vrijdags vrijdagen viernes vendredi
    saturday saturdays samstag samstags sonnabend sonnabends zaterdag zaterdags zaterdagen sábado sábados samedi
    sunday sundays sonntag sonntags zondag zondags zondagen domingo domingos dimanche
"""
DAYS = {word: number for number, line in enumerate(_DAYS_IN_LINES.strip().splitlines()) for word in line.split()}
"""0 for Monday, to 6."""
_SEVERAL = {
    **dict.fromkeys(("weekend", "weekends", "wochenende", "wochenenden", "weekeinde"), range(5, 7)),
    **dict.fromkeys(("weekdays", "werktags", "werktagen", "werkdagen", "doordeweeks", "laborables"), range(5)),
    **dict.fromkeys(("daily", "täglich", "dagelijks", "diario", "diariamente"), range(7)),
}
_DAY = "|".join(DAYS)
_BETWEEN = re.compile(rf"\b({_DAY})\s*(?:to|till|until|through|bis|tot(?: en met)?|t/m|a|hasta|au|-|–|—)\s*({_DAY})\b")
_WORD = re.compile(r"\w+")


def days_in(text: str) -> frozenset[int]:
    """The days that a text names."""
    text = text.casefold()
    words = _WORD.findall(text)
    found = {DAYS[word] for word in words if word in DAYS}
    found.update(day for word in words for day in _SEVERAL.get(word, ()))
    for match in _BETWEEN.finditer(text):
        first, last = DAYS[match[1]], DAYS[match[2]]
        found.update((first + n) % 7 for n in range((last - first) % 7 + 1))
    return frozenset(found)
