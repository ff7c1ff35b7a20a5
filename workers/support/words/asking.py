"""What kind of answer a question wants: a reason, or what holds under a condition; and answers that are the question
again. Knows words; knows no passages."""

from __future__ import annotations

from collections.abc import Sequence

from workers.support.words.polarity import words_of

_WHY = frozenset(("why", "warum", "wieso", "weshalb", "waarom"))
_REASONS_IN_LINES = """
    because since as due so reason reasons cause causes caused therefore hence thus for to order prevent avoid
    weil da denn wegen aufgrund grund gründe daher deshalb damit zu sonst
    omdat want doordat vanwege wegens reden redenen daarom zodat om anders
"""
_REASONS = frozenset(_REASONS_IN_LINES.split())
IF = frozenset(("if", "unless", "wenn", "falls", "sofern", "als", "mits", "tenzij", "si"))
_WHO = frozenset(("who", "whom", "whose", "wer", "wen", "wem", "wessen", "quién", "quiénes", "qui"))


def wants_person(question: Sequence[str], language: str) -> bool:
    """Whether a question asks who; of its words. Dutch "wie" is German for how."""
    return not _WHO.isdisjoint(question[:2]) or (language == "nl" and "wie" in question[:2])


def wants_reason(question: Sequence[str]) -> bool:
    """Whether a question asks why; of its words."""
    return not _WHY.isdisjoint(question[:2])


def gives_reason(words: Sequence[str]) -> bool:
    """Whether a sentence has a word that a reason comes with."""
    return not _REASONS.isdisjoint(words)


def condition(words: Sequence[str]) -> Sequence[str]:
    """The words behind the first "if" of a sentence; [] without one."""
    return next((words[n + 1 :] for n, word in enumerate(words) if word in IF), [])


def repeats(question: str, answer: str) -> bool:
    """Whether an answer is the question again, which small models do where they know none."""
    return words_of(answer) == words_of(question)


def begins(question: str, answer: str) -> bool:
    """Whether an answer may still become the question again."""
    return " ".join(words_of(question)).startswith(" ".join(words_of(answer)))
