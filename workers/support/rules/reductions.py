"""Reductions: "Members pay 15 percent less" speaks against the price of a list for a member. Pure.

Of one question. Only a sentence that says nothing else counts: a reduction on something, or under a condition, may be
another one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, pairwise

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
_LESS_IN_LINES = """
    less discount discounted reduction reduced off full
    rabatt ermäßigung ermässigung ermäßigt ermässigt nachlass weniger voll
    korting minder vol volle
"""
_LESS = frozenset(_LESS_IN_LINES.split())
_EXPLAINING_IN_LINE = "this that instead then das dies diese dann statt dat dit dan deze always immer altijd"
_EXPLAINING = frozenset(_EXPLAINING_IN_LINE.split())
"""Words of a sentence behind a reduction that says more about it."""
_PART = re.compile(r"[;:,.](?=\s|$)")


def is_reduced_for_whom_was_asked(
    answer: str, statement: Statement, statements: Sequence[Statement], question: Question
) -> bool:
    """Whether an answer has an amount of money for those of the question, and the sentence behind the one that it rests
    on says, under the same heading, that they pay less; of a row of a table, any behind it."""
    if CURRENCIES.isdisjoint(words_of(answer)) or _tells_less(answer) or _tells_less(question.text):
        return False
    there = statement.words if statement.row is None else statement.words.union(*statement.row.above)
    section = [one for one in statements if (one.passage, one.heading) == (statement.passage, statement.heading)]
    behind = [*section[section.index(statement) + 1 :]]
    if statement.row is not None:  # "Members pay less" is about the whole table
        behind = [*dropwhile(lambda one: not _reduced_for(one, question), behind)]
    if not behind:
        return False
    after = behind[1].text if len(behind) > 1 else ""
    if not _EXPLAINING.isdisjoint(words_of(after)) or _tells_less(after):
        return False
    return any(not near(word, there) for word in _reduced_for(behind[0], question))


def _tells_less(text: str) -> bool:
    """Whether words name a share, or that something is reduced; half a day is none."""
    words = words_of(text)
    shares = names_share([word for word, after in pairwise([*words, ""]) if after not in _TIMES])
    return shares or "%" in text or not _LESS.isdisjoint(words)


def _reduced_for(statement: Statement, question: Question) -> list[str]:
    """The words of the question for those who, by a sentence, pay less for everything."""
    reduced, of = _REDUCED.search(statement.text), question.vocabulary.of
    if reduced is None or statement.row is not None or words_of(statement.text[: reduced.start()]):
        return []
    on, *others = _PART.split(statement.text[reduced.end() :], maxsplit=1)
    if of(on) or any(near(word, question.asked) for word in of(" ".join(others))):
        return []  # "but the deposit stays the same", of the deposit
    return [word for word in of(reduced["who"]) if near(word, question.asked)]
