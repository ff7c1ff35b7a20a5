"""What a sentence says of a time, where the next one says what comes behind it: "In the trial period the notice is two
weeks. Afterwards it is two months" does not say two weeks of after the trial period.

Of one question. Knows words; knows no claims' place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.numbers import forms
from workers.support.words.polarity import words_of
from workers.support.words.word_forms import near

_WORD = r"[^\W\d_][\w-]*"
_AFTER = re.compile(
    r"(?<!\blong )(?<!\bsoon )(?<!\bdays )(?<!\btage )(?<!\blange )(?<!\bkurz )(?<!\blang )(?<!\bdagen )"
    r"\b(?:after|following|nach|na|después de|tras|après)\s+"
    rf"(?:(?:the|a|an|my|your|der|dem|den|die|das|einer|einem|de|het|een|el|la|los|las|le|les)\s+)?({_WORD}(?:\s+{_WORD})?)",
    re.IGNORECASE,
)
_PERIOD = re.compile(
    r"probe|probation|trial|period|phase|proef|frist|garantie|guarantee|warranty|zeit$|tijd$", re.IGNORECASE
)
"""Of what lasts for some time; not of places, nor of what happens once."""
_AFTERWARDS = re.compile(
    r"\W*(?:after(?:wards| (?:that|this|it|then))|thereafter|from then on|then\b(?! again)|danach|anschließend|ab dann"
    r"|nach (?:dieser|diesem) |daarna|nadien|vanaf dan|vervolgens|después\b(?! de)|ensuite|par la suite)",
    re.IGNORECASE,
)


def is_before(claim: Claim, statement: Statement, around: Sequence[Statement], question: Question) -> bool:
    """Whether a claim has a number of a sentence about something that what was asked comes after, and the next sentence
    has others for "afterwards"."""
    own = forms(claim.said) - forms(question.words)
    if not own or statement.row is not None or not (after := _AFTER.findall(question.text)):
        return False
    if not all(_PERIOD.search(said) for said in after):
        return False
    if _AFTER.search(statement.text) or not all(
        any(near(word, statement.words) for word in question.vocabulary.of(said)) for said in after
    ):
        return False
    following = next((one for one in around if one.passage == statement.passage and one.start >= statement.end), None)
    if following is None or not _AFTERWARDS.match(following.text):
        return False
    there = forms(words_of(following.text))
    return bool(there) and own.isdisjoint(there) and not own.isdisjoint(forms(words_of(statement.text)))
