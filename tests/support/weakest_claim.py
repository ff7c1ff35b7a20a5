"""What evidence finds for the weakest sentence of an answer."""

from __future__ import annotations

from retriever.languages import language_of
from workers.support.evidence import Evidence, Found
from workers.support.passages import sentences


def found(question: str, answer: str, passage: str) -> Found:
    """The sentence that is denied, or else the one with the least evidence."""
    claims = [answer[start:end] for start, end in sentences.claims(answer)]
    return min(
        Evidence(question, [passage], language_of(question)).of_answer(claims),
        key=lambda one: (not one.denied, one.evidence),
    )
