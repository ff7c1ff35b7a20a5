"""Reductions: "Members pay 15 percent less" speaks against the price of a list for a member. Pure.

Of one question. Only a sentence that says nothing else counts: a reduction on something, or under a condition, may be
another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from workers.support.claim import Claim
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.polarity import words_of
from workers.support.words.units import CURRENCIES, names_share
from workers.support.words.word_forms import near

_SHARE = r"\d+(?:[.,]\d+)?\s*(?:%|per\s?cent|prozent|procent)"
_REDUCED = re.compile(
    r"(?P<who>[\w-]+)\s+(?:"
    rf"(?:pays?|gets?|receives?|have|has)\s+(?:an?\s+)?(?:{_SHARE}\s+(?:less|off|discount|reduction)|half\b(?:\s+(?:the\s+)?price)?)"
    rf"|(?:zahlen|zahlt|erhalten|erhält|bekommen|bekommt)\s+(?:{_SHARE}\s+(?:weniger|rabatt|ermäßigung|nachlass)|die\s+hälfte)"
    rf"|(?:betalen|betaalt|krijgen|krijgt|hebben|heeft)\s+(?:{_SHARE}\s+(?:minder|korting)|de\s+helft)"
    r")",
    re.IGNORECASE,
)
_TIMES = {"day", "days", "hour", "hours", "year", "tag", "stunde", "jahr", "dag", "uur", "jaar"}
_PART = re.compile(r"[;:,.](?=\s|$)")


def is_reduced_for_whom_was_asked(
    claim: Claim, statement: Statement, around: Iterable[Statement], question: Question
) -> bool:
    """Whether a claim has an amount of money for those of the question, and another sentence of the passage says that
    they pay a share of it, or less by one."""
    if CURRENCIES.isdisjoint(claim.said) or _shares(claim.said) or _shares(question.words):
        return False
    there = statement.words if statement.row is None else statement.words.union(*statement.row.above)
    same = (one for one in around if one.passage == statement.passage and one is not statement)
    return any(not near(word, there) for one in same for word in _reduced_for(one, question))


def _shares(words: Sequence[str]) -> bool:
    """Whether words name a share; that of a day or an hour is none."""
    return names_share([word for word, after in pairwise([*words, ""]) if after not in _TIMES])


def _reduced_for(statement: Statement, question: Question) -> list[str]:
    """The words of the question for those who, by a sentence, pay less for everything."""
    reduced, of = _REDUCED.search(statement.text), question.vocabulary.of
    if reduced is None or statement.row is not None or words_of(statement.text[: reduced.start()]):
        return []
    on, *others = _PART.split(statement.text[reduced.end() :], maxsplit=1)
    if of(on) or any(near(word, question.asked) for word in of(" ".join(others))):
        return []  # "but the deposit stays the same", of the deposit
    return [word for word in of(reduced["who"]) if near(word, question.asked)]
