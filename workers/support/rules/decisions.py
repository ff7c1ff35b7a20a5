"""Decisions as minutes have them: a motion in one sentence, and what became of it in the next. Pure.

"Mr Hale moved to raise the price to 10.50 euros. The motion was rejected." speaks against "The motion to raise the
price to 10.50 euros was carried", whatever else was carried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.polarity import words_of
from workers.support.words.word_forms import near

_TAKEN_IN_LINES = """
    carried adopted approved accepted passed granted agreed
    angenommen beschlossen genehmigt bewilligt gebilligt zugestimmt
    aangenomen goedgekeurd aanvaard toegekend ingewilligd
    aprobado aprobada aceptado aceptada adoptado adoptada
"""
_REFUSED_IN_LINES = """
    rejected refused declined withdrawn postponed defeated lost dropped
    abgelehnt verworfen vertagt zurückgezogen verschoben zurückgestellt
    afgewezen verworpen ingetrokken uitgesteld geweigerd afgestemd
    rechazado rechazada denegado denegada aplazado aplazada
"""
_TAKEN, _REFUSED = frozenset(_TAKEN_IN_LINES.split()), frozenset(_REFUSED_IN_LINES.split())
_MOTION_IN_LINES = """
    motion motions proposal proposals application applications request requests suggestion
    antrag anträge vorschlag vorschläge bitte
    voorstel voorstellen motie moties verzoek aanvraag
    moción propuesta solicitud
    this that it das dies dieser dieses er es dit deze het esto esta
"""
_MOTION = frozenset(_MOTION_IN_LINES.split())
_OUTCOMES = "|".join(_TAKEN | _REFUSED)
_DECISION = re.compile(
    r"\b(?:was|were|is|are|been|wurden?|ist|sind|werd|werden|zijn|fue|fueron|sido)\b[^.;]*?"
    rf"\b(?:{_OUTCOMES})\b|\b(?:{'|'.join(_MOTION)})\s+(?:{_OUTCOMES})\b",
    re.IGNORECASE,
)
_NOT = frozenset(["not", "nicht", "niet", "never", "nie", "nooit", "wasn't", "weren't", "isn't", "aren't"])
"""Words that turn an outcome; "no objections" and "ohne Gegenstimmen" do not."""
_FOR_IT_IN_LINE = "voted agreed passed stimmte stimmten sprach sprachen stemde stemden votó votaron"
_FOR_IT = frozenset(_FOR_IT_IN_LINE.split())
_NEW_MOTION = re.compile(
    r"\b(?:motions?|proposals?|antrag|vorschlag|voorstel|motie)\s+(?:\w+\s+)?(?:to|on|for|that|auf|zur|zum|om|voor|tot)\b"
    r"|\b(?:moved|proposed|suggested)\s+(?:to|that)\b|\bbeantragte|\bschlug\b.*\bvor\b|\bstelde\b.*\bvoor\b",
    re.IGNORECASE,
)
NEAR = 4
"""Words before an outcome among which one may turn it."""
LEAST = 2
"""Words of the question, at least, that a motion has, so that it is known which one it is."""


class _Decision(NamedTuple):
    """What became of a motion.

    motion: its words, with those of the headings above it.
    outcome: whether it was carried; None if that is not clear.
    later: the sentences behind it in its section.
    """

    motion: frozenset[str]
    outcome: bool | None
    later: Sequence[Statement]


def is_decided_otherwise(claim: Claim, statements: Sequence[Statement], question: Question) -> bool:
    """Whether a claim says that something was carried that was not, or the other way round: of all decisions with what
    was asked, and nothing behind them may be another decision about it."""
    said = _outcome(claim.said)
    if said is None or _outcome(question.words) is None:
        return False
    names = frozenset(question.vocabulary.content(_TAKEN | _REFUSED | _MOTION))
    asked = [word for word in question.asked if not near(word, names)]
    found = [
        one for one in _decisions(statements) if len(asked) >= LEAST and all(near(word, one.motion) for word in asked)
    ]
    otherwise = bool(found) and all(one.outcome is (not said) for one in found)
    if not otherwise or any(_is_decided_again(one.later, said) for one in found):
        return False
    so = (one for one in statements if _outcome(words_of(one.text)) is said)  # "The council granted the request"
    return not any(all(near(word, one.words | one.heading) for word in asked) for one in so)


def _is_decided_again(later: Sequence[Statement], said: bool) -> bool:
    """Whether a sentence behind a decision, before the next motion, has the other outcome, or a vote for it."""
    for one in later:
        if _NEW_MOTION.search(one.text):
            return False
        words = words_of(one.text)
        if _outcome(words) is said or (said and not _FOR_IT.isdisjoint(words)):
            return True
    return False


def _outcome(words: list[str]) -> bool | None:
    """Whether something was carried, by the words of a sentence; None if it tells none, several, or "not rejected"."""
    outcomes: set[bool | None] = set()
    start = 0
    for at, word in enumerate(words):
        if word in _TAKEN or word in _REFUSED:
            turned = not _NOT.isdisjoint(words[max(at - NEAR, start) : at])
            outcomes.add(None if turned and word in _REFUSED else (word in _TAKEN) != turned)
            start = at + 1
    return outcomes.pop() if len(outcomes) == 1 else None


def _decisions(statements: Sequence[Statement]) -> Iterator[_Decision]:
    """All of them. Only a sentence that points back, such as "The motion was …", decides what those before it name."""
    motion: frozenset[str] = frozenset()
    section: tuple[int, frozenset[str]] | None = None
    for number, statement in enumerate(statements):
        here = statement.passage, statement.heading
        if section != here:
            motion, section = frozenset(), here
        if not _DECISION.search(statement.text):
            motion |= statement.words
            continue
        words = words_of(statement.text)
        before = frozenset[str]() if _MOTION.isdisjoint(words) else motion
        later = [one for one in statements[number + 1 :] if (one.passage, one.heading) == section]
        yield _Decision(before | statement.words | statement.heading, _outcome(words), later)
        motion = frozenset()
