"""Words that turn a statement into its opposite, words that deny another one, and number words.

The first and the last are stop words elsewhere, but never in evidence. "Closed" says that something is not open: in
evidence it counts as "open" and as one word that says no.

Of the languages that have a prompt template, and some more. Knows words; knows no sentences.
"""

from __future__ import annotations

from collections.abc import Iterable

_NEGATIONS = """
    not no never none nobody nothing neither nor without cannot except unless
    don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't shouldn't mustn't wouldn't hasn't haven't
    niet geen nooit niemand niets noch zonder behalve tenzij
    nicht kein keine keinen keinem keiner keines nie niemals niemand nichts weder ohne außer
    nunca ningún ninguna ninguno nadie nada ni sin jamás excepto salvo
    ne pas jamais aucun aucune rien personne sans sauf
    non mai nessun nessuno nessuna niente senza tranne
    não nem nenhum nenhuma ninguém sem exceto
"""
_NUMERALS = """
    zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
    first second third fourth fifth sixth seventh eighth ninth tenth half twice
    nul één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien twintig dertig
    veertig vijftig zestig zeventig tachtig negentig honderd duizend miljoen eerste tweede derde vierde
    null eins zwei drei fünf sechs sieben neun zehn zwölf zwanzig dreißig vierzig fünfzig sechzig siebzig
    achtzig neunzig hundert tausend zweite dritte vierte
    cero dos tres cuatro cinco seis siete ocho nueve diez doce veinte treinta cuarenta cincuenta sesenta
    setenta ochenta noventa cien mil primero primera segundo segunda tercero tercera
"""
ALLOWED = "allowed"
_STATES = {
    "open": (
        "geöffnet offen abierto abierta abiertos abiertas ouvert ouverte",
        "closed shut geschlossen gesloten cerrado cerrada cerrados cerradas fermé fermée",
    ),
    ALLOWED: (
        "permitted erlaubt gestattet zulässig toegestaan toegelaten permitido permitida autorisé autorisée",
        "forbidden prohibited banned disallowed verboten untersagt unzulässig prohibido prohibida interdit interdite",
    ),
    "included": (
        "inbegriffen inklusive inbegrepen inclusief incluido incluida",
        "excluded ausgeschlossen ausgenommen uitgesloten uitgezonderd excluido excluida",
    ),
    "required": (
        "mandatory compulsory obligatory verpflichtend vorgeschrieben verplicht obligatorio obligatoria",
        "optional voluntary freiwillig vrijwillig facultatief opcional voluntario voluntaria",
    ),
    "possible": ("möglich mogelijk posible", "impossible unmöglich onmogelijk imposible"),
    "available": ("verfügbar beschikbaar disponible", "unavailable"),
    "costless": ("kostenlos kostenfrei unentgeltlich gratis kosteloos gratuito gratuita", "kostenpflichtig"),
}
"""States, other words for each, and words for its opposite."""


_MAY_IN_LINE = "may darf darfst dürfen dürft mag mogen puede puedes pueden"
_MAY = frozenset(_MAY_IN_LINE.split())


def _by_word() -> tuple[dict[str, str], frozenset[str]]:
    counts, denying = {state: state for state in _STATES}, set[str]()
    for state, (same, opposite) in _STATES.items():
        counts |= dict.fromkeys([*same.split(), *opposite.split()], state)
        denying.update(opposite.split())
    return counts, frozenset(denying)


STATES, DENYING = _by_word()
"""What a word counts as in evidence, and the words among them that say no to it."""
NEGATIONS = frozenset(_NEGATIONS.split())
"""Of languages with spaces."""
NEGATION_SIGNS = frozenset("不没沒無无非未勿莫")
"""Of Chinese: a pair of signs with one of them says no."""
_SAYING_NOTHING = frozenset(["不过", "不仅", "不同", "不久", "不断", "非常", "非洲", "无论", "未来"])
"""Pairs with such a sign that deny nothing: however, not only, different, soon, always, very and so on."""
NUMERALS = frozenset(_NUMERALS.split())
"""Number words that are hardly ever anything else; that leaves out the words for one."""


def negations(words: list[str]) -> int:
    """How many of the words, as `retriever.words.split` gives them, say no. Those that deny a state do not count."""
    return sum(
        word in NEGATIONS or (not NEGATION_SIGNS.isdisjoint(word) and word not in _SAYING_NOTHING) for word in words
    )


def turned(said: Iterable[str], there: Iterable[str]) -> bool:
    """Whether a state that is said is there as its opposite alone: "open" where it says "closed", or the other way."""
    own, signs = _states(said), _states(there)
    return any((state, denied) not in signs and (state, not denied) in signs for state, denied in own)


def _states(words: Iterable[str]) -> set[tuple[str, bool]]:
    """States, and whether each is denied: "you may" and "allowed" are one, "forbidden" denies it."""
    found = ((ALLOWED if word in _MAY else STATES.get(word), word in DENYING) for word in words)
    return {(state, denied) for state, denied in found if state is not None}
