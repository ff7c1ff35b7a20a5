"""Which end of a time is asked for: when something begins, or when it ends; and the two ends that a text names, as in
`11:00 to 20:00`. Knows words and numbers; knows no passages.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from workers.support.words.numbers import usual_form

_BEGIN = re.compile(
    r"\b(?:do|does|did)\b.*\bopen\b|\b(?:opens|begins?|starts?|from when|since when|from what time)\b"
    r"|\b(?:öffnet|öffnen|beginnt|beginnen|ab wann|seit wann|von wann)\b|\bmacht\b.*\bauf\b"
    r"|\b(?:begint|beginnen|start|vanaf wanneer|vanaf hoe laat|opent)\b|\bgaat\b.*\bopen\b"
    r"|\b(?:abre|abren|empieza|comienza|desde cuándo)\b"
)
_END = re.compile(
    r"\b(?:close|closes|closing time|until when|till when|until what time|ends?|finish|finishes)\b"
    r"|\b(?:schliesst|schliessen|endet|enden|bis wann)\b|\bmacht\b.*\bzu\b"
    r"|\b(?:sluit|sluiten|eindigt|tot wanneer|tot hoe laat)\b|\bgaat\b.*\bdicht\b"
    r"|\b(?:cierra|cierran|termina|acaba|hasta cuándo)\b"
)
_TIME = r"(\d{1,2}(?:[:.]\d{2})?)(?:\s*(?:am|pm|a\.m\.|p\.m\.|uhr|uur|h))?"
_FROM_TO = re.compile(rf"(?<![\d.,:]){_TIME}\s*(?:to|until|till|bis|tot|a|hasta|-|–|—)\s*{_TIME}(?![\d,:]|\.\d)")


def is_other_end(question: str, said: Collection[str], text: str) -> bool:
    """Whether a claim names the end of a time that was not asked for, and not the one that was.

    Args:
        said: the claim's words.
        text: the sentence that it rests on.
    """
    asked = question.casefold()
    begins, ends = _BEGIN.search(asked) is not None, _END.search(asked) is not None
    if begins == ends:
        return False
    named = [(usual_form(one[1]), usual_form(one[2])) for one in _FROM_TO.finditer(text.casefold())]
    wanted, other = (0, 1) if begins else (1, 0)
    numbers = {usual_form(word) for word in said if word[0].isdigit()}
    right, wrong = {one[wanted] for one in named}, {one[other] for one in named}
    return bool(numbers & wrong) and numbers.isdisjoint(right)
