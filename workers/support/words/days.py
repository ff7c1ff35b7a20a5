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
_SHORT_IN_LINES = """
    mon tue tues wed thu thur thurs fri sat sun
    mo di mi do fr sa so
    ma wo vr za zo
    lu lun mar mié jue vie sáb dom
    me je ve
"""
_SHORT = "|".join(_SHORT_IN_LINES.split())
_OTHERWISE = re.compile(
    rf"\b(?:{_SHORT})\b\.?\s*(?:[-–—/&]|\d|(?:to|until|till|through|bis|tot|t/m)\b)"
    r"|\b(?:every ?day|each day|seven days|7 days|week ?days?|all week|always|jeden tag|alle tage|wochentags?|immer"
    r"|(?:elke|iedere) dag|altijd|hele week|door de week|todos los días|fin(?:es)? de semana|entre semana|siempre"
    r"|tous les jours|toujours|einschliesslich|inclusive|between|zwischen|tussen|entre)\b"
)
"""Days in other forms than `days_in` reads."""


def names_days_otherwise(text: str) -> bool:
    """Whether a text may name days in a form that `days_in` does not read: "Mon-Fri", every day."""
    return _OTHERWISE.search(text.casefold()) is not None


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
