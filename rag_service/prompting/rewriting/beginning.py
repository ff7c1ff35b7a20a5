"""How the rewrite of a follow-up begins, so that a small model completes it instead of repeating the follow-up. Pure.

"And in Lisbon?" asks what the question before it asked, so its rewrite begins as that question does. "How long does it
take?" keeps its own words up to the pronoun, and the model may not write the pronoun again. Of ten follow-ups that
leave words out, a model of 1.5B rewrote three by itself and nine from such beginnings (docs/log.md).

Knows words of English, German, Dutch, French and Spanish; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_service.prompting.rewriting.follow_up import EXPLETIVE, PRONOUNS, content_words

OPENING_WORDS = 2
"""Words of the question before that a rewrite begins with."""
FEWEST_WORDS = 4
"""Of that question; a shorter one hardly says how it goes on."""
MOST_WORDS = 8
"""Of a follow-up that leaves out what it asks; a longer one says it."""

_INSTEAD = re.compile(
    r"[¿¡\s]*(?:what about|how about|was ist mit|wie (?:ist|sieht) (?:es|das)(?: (?:mit|bei|in))?|wat is er met"
    r"|hoe (?:zit|is) (?:het|dat)(?: (?:met|bij|in))?|qu['’]en est-il|qué (?:hay|tal)|and|but|or|und|aber|oder|en|maar"
    r"|et|mais|y|e|pero|o)(?=\s)",
    re.IGNORECASE,
)
"""What a follow-up begins with that puts something else in the place of what was asked about."""
_ASKS_IN_LINES = """
    what who whom whose which when where why how if
    wer wen wem wessen was welche welcher welches welchen welchem wann wo wohin woher warum wieso weshalb wie wieviel
    womit wofür wodurch ob wenn
    wat wie welk welke wanneer waar waarom waarmee hoe hoeveel hoelang
    qui que quoi quel quelle quels quelles quand où pourquoi comment combien
    quién quiénes qué cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas
    is are was were do does did can could may must has have had will would should
    ist sind war waren hat haben kann können darf dürfen muss müssen wird werden gibt gilt soll
    zijn heeft hebben kan kunnen mag mogen moet moeten wordt worden geldt
    est sont peut peuvent doit doivent es son puede pueden debe
    tell show explain list give please thanks thank sag sagen zeig zeige erkläre nenne bitte danke geef noem vertel leg
    bedankt dank dis explique montre merci dime explica muestra gracias
    """
_ASKS = frozenset(_ASKS_IN_LINES.split())
"""Words with which a follow-up asks something itself, or asks for something else than an answer."""
_DETERMINERS_IN_LINES = """
    this these diese dieser diesen diesem dieses deze este esta estos estas ese esa esos esas ceux celles celui celle
    """
_DETERMINERS = frozenset(_DETERMINERS_IN_LINES.split())
"""Pronouns that mostly stand before a noun, which a name cannot replace alone."""
_POSSESSIVES_IN_LINES = """
    his her its their seine seinen seinem seiner seines ihre ihren ihrem ihrer ihres ihr haar hun sa ses son su sus leur
    leurs
    """
_POSSESSIVES = frozenset(_POSSESSIVES_IN_LINES.split())
"""Often of somebody in the question itself: "How does a student renew his card?"."""
_WITHIN = re.compile(
    r",|\b(?:an?|the|any|each|every|my|our|ein|eine|einen|einem|einer|das|der|die|den|dem|een|un|une|una|le|la|les|el|los)\b",
    re.IGNORECASE,
)
"""What stands before a noun that a later pronoun may mean."""
_CONJUNCTIONS_IN_LINES = """
    if when that whether because before after while as than and or what who where how
    wenn dass ob weil bevor nachdem als und oder wer wo wie
    dat of omdat voordat nadat terwijl en wat wie waar hoe si que quand et ou y o cuando
    """
_CONJUNCTIONS = frozenset(_CONJUNCTIONS_IN_LINES.split())
"""Words after which a pronoun begins a clause, mostly about something in the one before."""
_POLITE = frozenset({"Sie", "Ihnen", "Ihr", "Ihre", "Ihren", "Ihrem", "Ihrer", "Ihres"})
_AFTER = (
    r"(?=\W*$|\s+(?:op|in|van|voor|bij|aan|uit|naar|niet|ook|nog|open|dicht|klaar|per|dan|er|precies|nu|als|met"
    r"|zonder|(?:ge|be|ver|ont|her)\w+(?:d|t|en))\b)"
)
_DUTCH = re.compile(
    r"\b(?:is|was|wordt|gaat|kan|mag|moet|heeft|doet|geldt|kost|duurt|ligt|zit|komt|staat|werkt|sluit|begint|eindigt"
    rf"|krijgt|loopt|dekt) (?P<it>die|dat|deze|dit|het){_AFTER}",
    re.IGNORECASE,
)
"""Dutch words that are pronouns after a verb and articles or conjunctions elsewhere."""
_NOTHING = re.compile(
    r"\bit\b.* (?:to|if|that|when|for \w+ to) |\bhet\b.* (?:om|te|dat|als) |-(?:il|elle)\b", re.IGNORECASE
)
"""Where a pronoun stands for what follows, or for nothing, and inverted French ones, which hang on the verb."""
_THERE = re.compile(r"\b(?P<it>there)(?=\W*$)", re.IGNORECASE)
_WORD = re.compile(r"\w+")


class Beginning(NamedTuple):
    """Words that the rewrite begins with ("" for none), and words that it must not contain."""

    text: str = ""
    without: tuple[str, ...] = ()


def beginning(question: str, past: Sequence[str]) -> Beginning:
    """How the rewrite of `question` begins.

    Args:
        question: as it was asked.
        past: the questions before it as they were understood, oldest first.
    """
    if _NOTHING.search(question):
        return Beginning()
    if text := _as_before(question, past):
        return Beginning(text)
    found = sorted({(match.start("it"), match["it"]) for match in _pronouns(question)})
    if not found or _means_itself(question[: found[0][0]], found[0][1]):
        return Beginning()
    return Beginning(question[: found[0][0]].strip(), tuple(dict.fromkeys(word for _, word in found)))


def _as_before(question: str, past: Sequence[str]) -> str:
    instead = _INSTEAD.match(question)
    if not instead:
        return ""
    own = _WORD.findall(question[instead.end() :].casefold())
    if not 0 < len(own) <= MOST_WORDS or not _ASKS.isdisjoint(own):
        return ""
    whole = next((text for text in reversed(past) if _is_whole(text)), "")
    return " ".join(whole.split()[:OPENING_WORDS])


def _is_whole(question: str) -> bool:
    """Whether it says what it asks. Instructions of edits are among the questions before, too."""
    words = question.casefold().split()
    if len(words) < FEWEST_WORDS or _INSTEAD.match(question):
        return False
    return question.rstrip().endswith("?") or not _ASKS.isdisjoint(words[:FEWEST_WORDS])


def _pronouns(question: str) -> list[re.Match[str]]:
    text = EXPLETIVE.sub(lambda match: " " * len(match[0]), question)
    plain = [
        match
        for match in re.finditer(r"(?P<it>\w+)", text)
        if match["it"].casefold() in PRONOUNS - _DETERMINERS and match["it"] not in _POLITE
    ]
    return [*plain, *_DUTCH.finditer(text), *_THERE.finditer(text)]


def _means_itself(before: str, pronoun: str) -> bool:
    """Whether a pronoun may mean something in the words of its question before it."""
    words = _WORD.findall(before.casefold())
    if pronoun.casefold() in _POSSESSIVES:
        return bool(content_words(before))
    return bool(_WITHIN.search(before)) or (bool(words) and words[-1] in _CONJUNCTIONS)
