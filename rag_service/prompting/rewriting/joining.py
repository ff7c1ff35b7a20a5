"""A follow-up behind the question before it, where there is no rewrite: "When does the ferry go? And how much is that?"

A search for both finds what the follow-up is about; by its own words it would find anything. Pure.
"""

from __future__ import annotations

import re

from rag_service.prompting.rewriting.beginning import own_words
from rag_service.prompting.rewriting.follow_up import FEWEST_WORDS
from rag_service.prompting.rewriting.words import content_words

_QUESTION = re.compile(r"(?<=[?？])\s*(?=\w)")
_THERE_IS = re.compile(r"\b(is|zijn|was|waren|komt|komen|kan|zit) er\b", re.IGNORECASE)
"""Dutch; the German pronoun is written the same."""
_ASKING_IN_LINES = """
    cost costs last lasts take takes work works cover covers pay pays long time open opens close closes lange lang laat
    macht machen kostet kosten dauert dauern beginnt endet liegt zahlt
    doet doen kost duurt duren begint eindigt ligt betaalt
    fait coûte coûtent dure commence finit hace cuesta cuestan dura empieza termina
"""
_ASKING = frozenset(_ASKING_IN_LINES.split())
"""Words that ask for a price, a time or a person: what they are about is another word."""


def says_little(question: str) -> bool:
    """Whether a question has hardly a word that a passage could be about, and points back to what was asked before.

    "Who is the treasurer?" may be about something else.
    """
    question = _THERE_IS.sub(r"\1", question)
    own = own_words(question)
    named = content_words(own)
    if own != question and _ASKING.issuperset(named):
        return True
    return len(named) < FEWEST_WORDS and (own != question or not named)


def behind(before: str, question: str) -> str:
    """The question behind the one before it. Of several questions before, the first and the last are kept.

    Args:
        before: as it was understood, so it may have follow-ups behind it.
    """
    first, *others = _QUESTION.split(before.strip())
    return " ".join(dict.fromkeys([first, *others[-1:], question]))  # the same again is not said twice
