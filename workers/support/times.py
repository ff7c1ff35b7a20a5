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

_ALL_YEAR = r"all year|year[- ]round|every month|ganzjährig|das ganze jahr|(?:het )?hele jaar|jaarrond|todo el año"
_WHOLE = re.compile(rf"\b(?:{_ALL_YEAR})\b")
_NO_SPAN = re.compile(rf"\b(?:{_ALL_YEAR}|outside|ausserhalb|buiten|fuera)\b")


def is_of_other_times(text: str, question: Question) -> bool:
    """Whether a text says what is so in other months, or on other dates, than were asked for."""
    if _NO_SPAN.search(text.casefold()):
        return False
    if any(negations(words) or says_no(words) for words in (words_of(text), question.words)):
        return False
    return is_for_others(text, question.months, question.dates)


def is_of_every_month(text: str) -> bool:
    """Whether a text says that something is so all year."""
    return _WHOLE.search(text.casefold()) is not None


def is_of_times(text: str, question: Question) -> bool:
    """Whether one of the spans of time that a text names has all dates that were asked for."""
    return has_all(text, question.dates)


def says_it_of_times(claim: Claim, question: Question) -> bool:
    """Whether it answers a question for a yes or no without either, and says of the months that were asked for that it
    is so: "The bus goes on 15 November." """
    if question.wants_fact or claim.negations:
        return False
    return not question.months.isdisjoint(months_in(" ".join(claim.said)))
