"""Whether something is said of the months and dates that were asked for: "from 1 April to 1 October", of December.

Knows questions and claims; knows no passages.
"""

from __future__ import annotations

import re

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.words.months import has_all, is_for_others, months_in
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import says_no

_ALL_YEAR = re.compile(
    r"\b(?:all year|year[- ]round|outside|ganzjährig|das ganze jahr|ausserhalb|(?:het )?hele jaar|jaarrond|buiten"
    r"|todo el año|fuera)\b"
)


def is_of_other_times(text: str, question: Question) -> bool:
    """Whether a text says what is so in other months, or on other dates, than were asked for."""
    if _ALL_YEAR.search(text.casefold()):
        return False
    if any(negations(words) or says_no(words) for words in (words_of(text), question.words)):
        return False
    return is_for_others(text, question.months, question.dates)


def is_of_times(text: str, question: Question) -> bool:
    """Whether one of the spans of time that a text names has all dates that were asked for."""
    return has_all(text, question.dates)


def says_it_of_times(claim: Claim, question: Question) -> bool:
    """Whether it answers a question for a yes or no without either, and says of the months that were asked for that it
    is so: "The bus goes on 15 November." """
    if question.wants_fact or claim.negations:
        return False
    return not question.months.isdisjoint(months_in(" ".join(claim.said)))
