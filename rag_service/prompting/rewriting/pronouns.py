"""Pronouns of a question that stand for something said before. Pure.

Some words are pronouns in some places only: "Wer macht das?", but not "Wer macht das Essen?".
"""

from __future__ import annotations

import re

from rag_service.prompting.rewriting.words import PRONOUNS, WORD, content_words, plain

EXPLETIVE = re.compile(r"\b(?:is|was) it (?:possible|necessary|allowed|ok|okay|true|mandatory) ", re.IGNORECASE)
"""Where `it` stands for nothing."""
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
    r"|zonder)\b|\s+(?:ge|be|ver|ont|her)\w+(?:d|t|en)\W*$)"
)
_DUTCH = re.compile(
    r"\b(?:is|was|wordt|gaat|kan|mag|moet|heeft|doet|geldt|kost|duurt|ligt|zit|komt|staat|werkt|sluit|begint|eindigt"
    rf"|krijgt|loopt|dekt) (?P<it>die|dat|deze|dit|het){_AFTER}",
    re.IGNORECASE,
)
"""Dutch words that are pronouns after a verb and articles or conjunctions elsewhere."""
_GERMAN = re.compile(
    r"\b(?:ist|sind|war|wird|hat|kann|darf|muss|soll|gilt|kostet|dauert|geht|liegt|steht|kommt|läuft|endet|beginnt|deckt"
    r"|macht|braucht) (?P<it>das|dem|den|der|die)"
    r"(?=\W*$|\s+(?:auch|noch|denn|dann|nicht|nur|immer|genau|dort|hier|für|bei|mit|auf|zu|und|oder)\b"
    r"|\s+[a-zäöüß]+(?:en|t)\W*$)",
)
"""German words that are pronouns after a verb and articles elsewhere."""
_GERMAN_IT = re.compile(
    r"\b(?:kostet|dauert|liegt|steht|endet|beginnt|gehört|funktioniert|heißt) (?P<it>es)"
    r"(?=\W*$|\s+(?:und|oder|für|mit|ohne|im|am|pro)\b)",
    re.IGNORECASE,
)
"""Where `es` does not stand for nothing."""
_CLAUSE_ENDS = re.compile(r"\W*$|\s+(?:und|oder|en|of|and|or)\b", re.IGNORECASE)
"""What a pronoun at the end of a clause is followed by."""
_LAST = re.compile(r"\b(?P<it>there|that)(?=\W*$)", re.IGNORECASE)
_THAT = re.compile(
    r"\b(?:is|was|does|did) (?P<it>that)(?=\s+(?:for|in|with|per|on|at|by|from|than|to)\b)", re.IGNORECASE
)
"""English words that are pronouns there, and others elsewhere."""


def pronouns(text: str) -> int:
    """The number of pronouns in a text."""
    return sum(word in PRONOUNS for word in WORD.findall(EXPLETIVE.sub(" ", plain(text))))


def pointing(question: str) -> list[re.Match[str]]:
    """The pronouns of a question that a name can replace, in order, as the groups `it`."""
    text = EXPLETIVE.sub(lambda match: " " * len(match[0]), question)
    anywhere = [
        match
        for match in re.finditer(r"(?P<it>\w+)", text)
        if match["it"].casefold() in PRONOUNS - _DETERMINERS and match["it"] not in _POLITE
    ]
    found = [
        *anywhere,
        *(match for form in (_DUTCH, _GERMAN, _GERMAN_IT, _LAST, _THAT) for match in form.finditer(text)),
    ]
    return sorted({match.start("it"): match for match in found}.values(), key=lambda match: match.start("it"))


def means_itself(before: str, pronoun: str) -> bool:
    """Whether a pronoun may mean something in the words of its question before it."""
    words = WORD.findall(before.casefold())
    if pronoun.casefold() in _POSSESSIVES:
        return bool(content_words(before))
    return bool(_WITHIN.search(before)) or (bool(words) and words[-1] in _CONJUNCTIONS)


def points_back(question: str) -> bool:
    """Whether a question has a pronoun for something that it does not name itself, at the end of a clause."""
    return any(
        _CLAUSE_ENDS.match(question, one.end("it")) and not means_itself(question[: one.start("it")], one["it"])
        for one in pointing(question)
    )
