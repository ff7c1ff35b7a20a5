"""Words that turn a statement into its opposite, and number words: stop words elsewhere, but never in evidence.

Of the languages that have a prompt template, and some more. Knows words; knows no sentences.
"""

from __future__ import annotations

import re

from retriever.words import split
from workers.support.words.letters import with_names

_NEGATIONS = """
    not no never none nobody nothing nowhere neither nor without cannot except unless
    don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't shouldn't mustn't wouldn't hasn't haven't
    niet geen nooit niemand niets nergens noch zonder behalve tenzij
    nicht kein keine keinen keinem keiner keines nie niemals niemand nichts nirgends nirgendwo
    weder ohne außer
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
NEGATIONS = frozenset(_NEGATIONS.casefold().split())
"""Of languages with spaces, as `split` writes them: ausser."""
NEGATION_SIGNS = frozenset("不没沒無无非未勿莫")
"""Of Chinese: a pair of signs with one of them says no."""
_SAYING_NOTHING = frozenset(["不过", "不仅", "不同", "不久", "不断", "非常", "非洲", "无论", "未来"])
"""Pairs with such a sign that deny nothing: however, not only, different, soon, always, very and so on."""
_MORE_IN_LINES = """
    more less later earlier longer mehr weniger später früher länger meer minder later eerder langer más menos
"""
_MORE, _THAN = frozenset(_MORE_IN_LINES.split()), frozenset(("than", "als", "dan", "de", "que"))
ONLY = frozenset(("only", "nur", "alleen", "slechts", "solo", "sólo"))
WITHOUT = frozenset(("without", "ohne", "zonder", "sin", "sans", "senza", "sem"))
"""Words that say no to the next words alone."""
NUMERALS = frozenset(_NUMERALS.casefold().split())
"""Number words that are hardly ever anything else; that leaves out the words for one."""
_UNOPPOSED = frozenset(
    (without, what)
    for without, whats in {
        "ohne": ("gegenstimme", "gegenstimmen", "widerspruch", "enthaltungen"),
        "zonder": ("tegenstem", "tegenstemmen", "bezwaar"),
        "without": ("dissent", "objection", "objections", "opposition"),
    }.items()
    for what in whats
)
"""Deny nothing: all were for it."""
_DUTCH = frozenset(["de", "het", "een", "zijn", "worden", "kunnen", "op", "te", "van", "voor", "niet", "geen"])
"""Words that German has not; there "noch" is "still", and here it is "nor"."""
_NOT_FRENCH_IN_LINES = """
    het een zijn is wordt worden kan kunnen mag mogen moet moeten op voor na naar nadat vanaf niet geen je uur
"""
_NOT_FRENCH = frozenset(_NOT_FRENCH_IN_LINES.split())
"""Words that French has not; there "pas" is "not", mostly behind "ne", and here it is "not before"."""
_NON = re.compile(r"\b(non|nicht|niet)-(?=\w)", re.IGNORECASE)

_TIMES = re.compile(
    r"\b(\d+|two|three|four|five|six|seven|eight|nine|ten|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf"
    r"|twee|drie|vijf|zes|zeven|negen|tien|dos|tres|cuatro|cinco)(?:-?(?:mal|maal)"
    r"|\s+(?:times|mal|keer|maal|veces)|\s?x(?= (?:a|per|pro|im|in|every|täglich|wöchentlich|jährlich|daags)\b))\b",
    re.IGNORECASE,
)
"""How often; not "once", "einmal" and "eenmaal", which are also "some day"."""
_TWICE = re.compile(r"\btwice\b", re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """The words of a text as `retriever.words.split` gives them; non-member is one, which denies nothing, German
    "noch" is left out, a letter that names something is in bold: oven 𝐁, and "twice", "3 times" and "driemaal" are a
    number and `mal`."""
    words = split(_TIMES.sub(r"\1 mal", _TWICE.sub("two mal", _NON.sub(r"\1", with_names(text)))))
    if "noch" in words and _DUTCH.isdisjoint(words):
        return [word for word in words if word != "noch"]
    return words


def negations(words: list[str]) -> int:
    """How many of the words, as `words_of` gives them, say no; "never more than 30" names a limit, and "without
    dissent" says it to nothing."""
    ends = [*words, "", ""]
    french = _NOT_FRENCH.isdisjoint(words) or any(word == "ne" or word.startswith("n'") for word in words)
    names = NEGATIONS if french else NEGATIONS - {"pas"}
    return sum(
        (
            word in names
            and not (ends[n + 1] in _MORE and ends[n + 2] in _THAN)
            and (word, ends[n + 1]) not in _UNOPPOSED
        )
        or (not NEGATION_SIGNS.isdisjoint(word) and word not in _SAYING_NOTHING)
        for n, word in enumerate(words)
    )
