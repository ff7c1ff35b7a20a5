"""Decisions as minutes have them: a motion in one sentence, and what became of it in the next. Pure.

"Mr Hale moved to raise the price to 10.50 euros. The motion was rejected." speaks against "The motion to raise the
price to 10.50 euros was carried", whatever else was carried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.polarity import negations, words_of
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
NEAR = 4
"""Words before an outcome among which one may deny it."""
LEAST = 2
"""Words of the question, at least, that a motion has, so that it is known which one it is."""


def is_decided_otherwise(claim: Claim, statements: Sequence[Statement], question: Question) -> bool:
    """Whether a claim says that something was carried that was not, or the other way round: of all decisions with what
    was asked."""
    said = _outcome(claim.said)
    if said is None or _outcome(question.words) is None:
        return False
    asked = [word for word in question.asked if not _is_of_decisions(word, question)]
    found = {
        outcome
        for motion, outcome in _decisions(statements)
        if len(asked) >= LEAST and all(near(word, motion) for word in asked)
    }
    return found == {not said}


def _is_of_decisions(word: str, question: Question) -> bool:
    content = question.vocabulary.content
    return near(word, frozenset(content(_TAKEN | _REFUSED | _MOTION)))


def _outcome(words: list[str]) -> bool | None:
    """Whether something was carried, by the words of a sentence; None if it tells no or two outcomes."""
    outcomes = {
        (word in _TAKEN) != (negations(words[max(at - NEAR, 0) : at]) % 2 == 1)
        for at, word in enumerate(words)
        if word in _TAKEN or word in _REFUSED
    }
    return outcomes.pop() if len(outcomes) == 1 else None


def _decisions(statements: Sequence[Statement]) -> Iterator[tuple[frozenset[str], bool]]:
    """The words of each motion with those of the headings above it, and whether it was carried."""
    motion: frozenset[str] = frozenset()
    before: Statement | None = None
    for statement in statements:
        if before is None or (statement.passage, statement.heading) != (before.passage, before.heading):
            motion = frozenset()
        before = statement
        motion |= statement.words
        decision = _DECISION.search(statement.text)
        if decision is None:
            continue
        outcome = _outcome(words_of(statement.text))
        if outcome is not None:
            yield motion | statement.heading, outcome
        motion = frozenset()
