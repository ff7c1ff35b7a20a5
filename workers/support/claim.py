"""A claim: what a sentence of an answer states, with the yes or no before it. Pure; knows words, and no passages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from workers.support.words.asking import IF
from workers.support.words.numbers import numbers, others
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import allows, disallows, forbids, turned

_VERDICT = re.compile(
    r"^\s*(?:(?P<yes>yes|ja|jawohl|sí|si|oui|是|是的|可以)|no|nee|nein|non|不|不是|否)\s*(?:[,.!:;–，。！]\s*|$)",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"^\s*(?:the answer is|die antwort (?:ist|lautet)|het antwoord (?:is|luidt)|la respuesta es)\s*:?\s*", re.IGNORECASE
)
_COMPARING_IN_LINES = """
    above after at before below from less more most least over than till to under until up within
    ab als auf bis höchstens mehr mindestens nach seit über um unter vor weniger
    boven dan hoogstens meer minder minstens na om onder sinds tot vanaf voor
    a antes desde después hasta más menos
    """
_FROM = frozenset(("from", "von", "van", "de", "desde"))
_TO = frozenset(("to", "auf", "naar", "tot", "a", "hasta"))
_COMPARING = frozenset(_COMPARING_IN_LINES.split())
"""Words before a number that another number may answer: "after 8 o'clock", "more than 10 people"."""

_BUT_IN_LINE = "but except aber jedoch ausser ausgenommen maar behalve uitgezonderd pero excepto salvo mais sauf"
_BUT = frozenset(_BUT_IN_LINE.split())


@dataclass(frozen=True, slots=True)
class Claim:
    """What a sentence states.

    Attributes:
        said: its words, as `words_of` gives them; of a bare yes or no those of the question.
        negations: how many of them say no, with the bare no.
        verdict: the yes or no that it begins with; "" for neither.
    """

    said: list[str]
    negations: int
    verdict: Literal["yes", "no", ""] = ""

    @classmethod
    def read(cls, sentence: str, question: str) -> Claim:
        sentence = _ANSWER.sub("", sentence)
        found = _VERDICT.match(sentence)
        if found is None:
            said = words_of(sentence)
            return cls(said, negations(said))
        said = words_of(sentence[found.end() :])
        if said:
            return cls(said, negations(said), "yes" if found["yes"] else "no")
        said = words_of(question)
        return cls(said, negations(said) + (not found["yes"]), "yes" if found["yes"] else "no")

    def is_at_odds_with(self, asked: list[str]) -> bool:
        """Whether it says yes and then something else than was asked: "Yes, it is closed", "Yes, the limit is 35 km/h".

        Args:
            asked: the words of the question.
        """
        if self.verdict != "yes":
            return False
        otherwise = self.negations % 2 != negations(asked) % 2
        first = self._first()
        if turned(first, asked) and not otherwise:
            return True
        if not (self.negations or negations(asked)) and forbids(first) and not forbids(asked):
            return True
        if not negations(asked) and allows(asked) and disallows(first) and IF.isdisjoint(first):
            return True
        if _is_left_behind(self.said, asked):
            return True
        own = _numbers_of(self.said)
        said = [number for number, _, _ in own]
        units = {unit for _, unit, before in own if before not in _COMPARING}
        return any(
            others([number], said) and unit in units and before not in _COMPARING
            for number, unit, before in _numbers_of(asked)
        )

    def _first(self) -> list[str]:
        """The words before a "but" or an exception, if there are any."""
        at = next((n for n, word in enumerate(self.said) if n and word in _BUT), None)
        return self.said[:at]


def _is_left_behind(said: list[str], asked: list[str]) -> bool:
    """Whether it names the number that was asked for as what something was before: "Yes, it rises from 60 to 72"."""
    befores = {number: before for number, _, before in _numbers_of(asked)}
    own = _numbers_of(said)
    return any(
        befores.get(number, before) != before
        and before in _FROM
        and any(after in _TO and other not in befores for other, _, after in own[n + 1 :])
        for n, (number, _, before) in enumerate(own)
    )


def _numbers_of(words: list[str]) -> list[tuple[str, str, str]]:
    """Each number with the word behind it and the one before it."""
    ends = ["", *words, ""]
    return [(word, ends[n + 2], ends[n]) for n, word in enumerate(words) if numbers([word]) and ends[n + 2]]
