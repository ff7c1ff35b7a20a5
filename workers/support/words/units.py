"""Units of numbers: two years are no two fire extinguishers, and 5 percent are no 5 euros.

Knows words of English, German, Dutch and Spanish; knows no sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from itertools import pairwise

from workers.support.words.numbers import forms, usual_form
from workers.support.words.polarity import negations

Content = Callable[[Sequence[str]], Sequence[str]]
"""The content words among words, in a form in which they can be compared."""
WITHIN = 4
"""Words behind a number that may say what it counts."""
HOW_MANY = frozenset(("many", "viele", "wieviele", "hoeveel", "cuántos", "cuántas"))
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
    metre metres meter meters metros m
    centimetre centimetres centimeter centimeters centimetros cm
    kilometre kilometres kilometer kilometers km
    kilogram kilograms kilogramm kilo kilos kg
    litre litres liter liters litros
    ampere amperes amp amps
    degree degrees grad graden
    mal
"""
OFTEN = "mal"
"""As `words_of` has how often something is; nothing else is counted without that word."""
_GROUPS = {word: line.split()[0] for line in _UNITS_IN_LINES.strip().splitlines() for word in line.split()}
_LENGTHS = frozenset(("metre", "kilometre", "centimetre"))
_OF_LENGTH = frozenset(("deep", "tall", "wide", "broad", "tief", "breit", "diep", "breed"))
"""What is measured in lengths, behind "how"; a price may be high."""
_HOW = frozenset(("how", "wie", "hoe"))
_AMOUNT = {
    *(("how", "much"), ("how", "many"), ("wie", "viel"), ("wie", "viele"), ("wie", "hoch"), ("wie", "teuer")),
    *(("hoe", "veel"), ("hoe", "hoog"), ("hoe", "duur")),
}
_AMOUNT_ALONE = frozenset(("wieviel", "wieviele", "hoeveel", "cuánto", "cuánta", "cuántos", "cuántas"))
_AMOUNTS_IN_LINES = """
    a an one both half halves full fully whole all none no nothing free gratis double twice once some any several few
    many
    ein eine einen einem einer eines beide hälfte halb halben voll volle vollen voller ganze ganzen alle alles keine
    kein keinen nichts kostenlos kostenfrei umsonst frei doppelt einmal zweimal mehrere einige
    een één beide helft halve volledig volledige hele alle alles geen niets gratis dubbel dubbele eenmaal tweemaal keer
    un una uno ambos mitad medio media todo toda todos nada gratis gratuito doble ningún ninguna
"""
_AMOUNTS = frozenset(_AMOUNTS_IN_LINES.split())
"""Words that say how much without a number."""


_DOES_COST = {(what, does) for what in ("what", "much") for does in ("does", "do", "did", "would", "will")}
_COST = {
    *((what, costs) for what in ("was", "viel", "wieviel") for costs in ("kostet", "kosten")),
    *((what, costs) for what in ("wat", "veel", "hoeveel") for costs in ("kost", "kosten")),
    *((what, costs) for what in ("cuánto", "qué") for costs in ("cuesta", "cuestan")),
}
"""What a question about a price begins with."""
_COSTS = frozenset(("costs", *(costs for _, costs in _COST)))
_FREE_IN_LINES = """
    free nothing included half double depends cost price pay
    kostenlos kostenfrei umsonst frei nichts inbegriffen enthalten hälfte halb doppelt gratis preis zahlen
    niets inbegrepen helft halve dubbel prijs betalen gratuito nada mitad
"""
_FREE = frozenset(_FREE_IN_LINES.split())
"""Words that say what something costs without a number."""
_TIMES_IN_LINES = """
    january february march april may june july august september october november december o'clock am pm
    januar februar märz april mai juni juli august september oktober november dezember uhr
    januari februari maart april mei juni juli augustus september oktober november december uur
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
"""
_TIMES = frozenset(_TIMES_IN_LINES.split())
"""What stands behind numbers of dates and times."""
_SIGN = re.compile(r"(?:[€£$]|\b(?:EUR|GBP|USD|CHF)\b)\s?(\d+(?:[.,]\d+)*)|(\d+(?:[.,]\d+)*)\s?[€£$]")
"""An amount with the sign of a currency."""
_YEAR = re.compile(r"(?:19|20)\d\d")


_SHARES = frozenset(
    (
        "half",
        "hälfte",
        "halb",
        "halben",
        "helft",
        "halve",
        "mitad",
        "percent",
        "prozent",
        "procent",
        "double",
        "doppelt",
    )
)
_EXTRA_IN_LINES = """
    extra plus additional additionally surcharge surcharges supplement
    dazu zusätzlich zuzüglich zuschlag aufpreis aufschlag
    erbij bijkomend bijkomende toeslag bovenop daarbovenop
    adicional adicionales suplemento recargo
"""
EXTRA = frozenset(_EXTRA_IN_LINES.casefold().split())
"""Words of what is paid on top of a price."""


MONEY, COUNT = "money", "count"
_MONEY = frozenset(("euro", "pound", "dollar", "franc"))
UNITS = frozenset(_GROUPS)
CURRENCIES = frozenset(word for word, unit in _GROUPS.items() if unit in _MONEY)
FREE_OF_CHARGE = frozenset(
    ("free", "gratis", "kostenlos", "kostenfrei", "umsonst", "unentgeltlich", "kosteloos", "gratuito", "gratuita")
)


def kind_of(number: str, behind: Sequence[str]) -> str | None:
    """What a number measures: money, a unit, or how many there are; None of times, dates and years.

    Args:
        behind: the words behind it.
    """
    if ":" in number or _YEAR.fullmatch(number) or (behind and behind[0] in _TIMES):
        return None
    unit = _GROUPS.get(behind[0], COUNT) if behind else COUNT
    return MONEY if unit in _MONEY else unit


def names_share(words: Sequence[str]) -> bool:
    """Whether words say how much of an amount is meant: "members pay half the fee"."""
    return not _SHARES.isdisjoint(words)


def measured(said: Sequence[str]) -> list[str]:
    """The numbers of a claim that have a unit, in their usual form."""
    return [usual_form(number) for number, behind in counted(said) if behind and behind[0] in _GROUPS]


def with_currencies(text: str) -> str:
    """A text with a word for the sign of a currency: "45 euro", of €45."""
    return _SIGN.sub(r" \1\2 euro ", text)


def priced_in(said: Sequence[str]) -> set[str]:
    """The numbers that are amounts of money, in their usual form."""
    return {usual_form(number) for number, behind in counted(said) if behind and behind[0] in CURRENCIES}


def measures_another(said: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether it was asked how deep something is, and a claim has numbers of other units alone: 45 minutes."""
    if not any(how in _HOW and what in _OF_LENGTH for how, what in pairwise(asked)):
        return False
    units = [_GROUPS[behind[0]] for _, behind in counted(said) if behind and behind[0] in _GROUPS]
    return bool(units) and _LENGTHS.isdisjoint(units)


def lacks_amount(said: list[str], asked: Sequence[str]) -> bool:
    """Whether it was asked how much or how many, and a claim names no amount: "The porter is called Fludd"."""
    if not (_AMOUNT.intersection(pairwise(asked)) or _AMOUNT_ALONE.intersection(asked)):
        return False
    return not (any(map(str.isdigit, "".join(said))) or forms(said) or _AMOUNTS.intersection(said) or negations(said))


def lacks_price(said: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether it was asked what something costs, and an answer names no price: its numbers are dates and times."""
    begins = set(pairwise(asked))
    if _COST.isdisjoint(begins) and not ("cost" in asked and begins & _DOES_COST):
        return False
    ends = [*said, ""]
    amounts = (n for n, word in enumerate(said) if forms([word]) and not (_YEAR.fullmatch(word) or ":" in word))
    return _FREE.isdisjoint(said) and _COSTS.isdisjoint(said) and all(ends[n + 1] in _TIMES for n in amounts)


def counts_another(said: Sequence[str], there: Sequence[str], asked: Sequence[str], content: Content) -> bool:
    """Whether a sentence has a number of a claim as another measure only, or, where it was asked how many there are, of
    something else: "two years" or "two dogs" for "two fire extinguishers".

    Args:
        said, there, asked: words of the claim, the sentence and the question, as `words_of` gives them.
        content: the content words among words, in a form in which they can be compared.
    """
    counting = not HOW_MANY.isdisjoint(asked)
    for number, behind in counted(said):
        unit = _GROUPS.get(behind[0]) if behind else None
        if not behind or (unit is None and behind[0] not in asked):
            continue
        here = [after for one, after in counted(there) if not forms([one]).isdisjoint(forms([number]))]
        units = [_GROUPS.get(after[0]) if after else None for after in here]
        if here and all(other is not None and other != unit for other in units):
            return True
        if unit == OFTEN and here and all(after and other != unit for after, other in zip(here, units, strict=True)):
            return True
        claimed = set(content(behind[:1]))
        if (
            counting
            and here
            and all(after and content(after[:1]) and claimed.isdisjoint(content(after)) for after in here)
        ):
            return True
    return False


def counts_otherwise(there: Sequence[str], here: Sequence[str], numbers: Set[str], content: Content) -> bool:
    """Whether one sentence has numbers only that another has not, of what that counts: "one guest" for "two guests".

    Args:
        numbers: those of `here` that matter, in their usual form.
    """
    matter = [behind[:1] for number, behind in counted(here) if usual_form(number) in numbers]
    things = {thing for words in matter for thing in content(words)}
    of_these = [usual_form(number) for number, behind in counted(there) if things.intersection(content(behind))]
    return bool(of_these) and numbers.isdisjoint(of_these)


def counted(words: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Each number with the words behind it, but for what Dutch names before: "leden mogen er acht meenemen"."""
    ends = ["", *words]
    return [
        (word, [] if ends[n] == "er" else words[n + 1 : n + 1 + WITHIN])
        for n, word in enumerate(words)
        if forms([word])
    ]
