"""States and their opposites: "closed" says that something is not open, "prohibited" that it is not allowed.

In evidence, a word counts as its state, whether it affirms or denies it: a question about whether a pool is open is
answered by a sentence that says "closed". English, German, Dutch, Spanish and French share the names of states, so that
an answer may be in another language than its passage. Knows words; knows no sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workers.support.words.polarity import ONLY

ALLOWED, REQUIRED = "allowed", "required"
_STATES = {
    "open": (
        "geöffnet offen abierto abierta abiertos abiertas ouvert ouverte",
        "closed shut geschlossen ruhetag ruhetage gesloten dicht sluitingsdag cerrado cerrada cerrados "
        "cerradas fermé fermée",
    ),
    ALLOWED: (
        "permitted erlaubt gestattet zulässig toegestaan toegelaten permitido permitida autorisé autorisée",
        "forbidden prohibited banned disallowed verboten untersagt unzulässig verboden prohibido prohibida interdit "
        "interdite",
    ),
    "included": (
        "inbegriffen enthalten inklusive inbegrepen inclusief incluido incluida",
        "excluded ausgeschlossen ausgenommen uitgesloten uitgezonderd excluido excluida",
    ),
    REQUIRED: (
        "mandatory compulsory obligatory verpflichtend vorgeschrieben verplicht obligatorio obligatoria",
        "optional voluntary exempt exempted freiwillig befreit vrijwillig facultatief vrijgesteld opcional voluntario "
        "voluntaria exento exenta exentos",
    ),
    "possible": ("möglich mogelijk posible", "impossible unmöglich onmogelijk imposible"),
    "available": ("verfügbar beschikbaar disponible", "unavailable"),
    "costless": ("kostenlos kostenfrei unentgeltlich gratis kosteloos gratuito gratuita", "kostenpflichtig"),
}
"""States, other words for each, and words for its opposite."""
_MAY_IN_LINE = """
    may can could cannot can't darf darfst dürfen dürft kann kannst können könnt mag mogen kan kunt kunnen
    puede puedes puedo pueden podemos
"""
_NOT = frozenset(("not", "nicht", "niet"))
_MUST_IN_LINE = """
    must muss musst müssen müsst moet moeten debe debes debo deben debemos
"""
_VERBS = dict.fromkeys(_MAY_IN_LINE.split(), ALLOWED) | dict.fromkeys(_MUST_IN_LINE.split(), REQUIRED)
"""Verbs that say that something is allowed, or required. They are stop words, so they count in `turned` alone."""


def _by_word() -> tuple[dict[str, str], frozenset[str]]:
    counts, denying = {state: state for state in _STATES}, set[str]()
    for state, (same, opposite) in _STATES.items():
        counts |= dict.fromkeys([*same.split(), *opposite.split()], state)
        denying.update(opposite.split())
    return counts, frozenset(denying)


STATES, DENYING = _by_word()
"""What a word counts as in evidence, and the words among them that say no to it."""


def turned(said: Iterable[str], there: Iterable[str]) -> bool:
    """Whether a state that is said is there as its opposite alone: "open" where it says "closed", or the other way."""
    own, signs = _states(said), _states(there)
    return any((state, denied) not in signs and (state, not denied) in signs for state, denied in own)


def forbids(words: Iterable[str]) -> bool:
    """Whether they say that something is forbidden."""
    return any(state == ALLOWED and denied for state, denied in _states(words))


def allows(words: Iterable[str]) -> bool:
    """Whether they say that something is allowed, perhaps behind a "not"."""
    return (ALLOWED, False) in _states(words)


def disallows(words: Sequence[str]) -> bool:
    """Whether all words that say that something is allowed have a "not" beside them: "bikes are not allowed"."""
    ends = ["", *words, "", ""]
    found = [n for n, word in enumerate(ends) if (ALLOWED, False) in _states([word])]
    return bool(found) and all(ends[n - 1] in _NOT or (ends[n + 1] in _NOT and ends[n + 2] not in ONLY) for n in found)


def says_no(words: Iterable[str]) -> bool:
    """Whether they name a state that is the opposite of another: closed, forbidden."""
    return not DENYING.isdisjoint(words)


def implied(words: Iterable[str]) -> set[str]:
    """The states that words name, or say with a verb such as may and must."""
    return {state for state, _ in _states(words)}


def _states(words: Iterable[str]) -> set[tuple[str, bool]]:
    """States, and whether each is denied: "you may" and "allowed" are one, "forbidden" denies it."""
    found = ((_VERBS.get(word) or STATES.get(word), word in DENYING) for word in words)
    return {(state, denied) for state, denied in found if state is not None}
