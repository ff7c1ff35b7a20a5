"""Whether a statement contradicts a claim: one says no and the other does not, or a number differs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from workers.support.claim import Claim
from workers.support.passages.sentences import GOES_ON, clauses
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.weights import Weights
from workers.support.words.numbers import others
from workers.support.words.polarity import NEGATIONS, ONLY, WITHOUT, negations, words_of
from workers.support.words.states import turned
from workers.support.words.word_forms import near

NEARLY = 0.8
"""Share of a sentence from which on a claim repeats it, negations and all; otherwise its nearest clause counts."""
_EXCEPTING = r"except|außer|ausser|ausgenommen|behalve|uitgezonderd|excepto|salvo"
EXCEPTION = re.compile(rf"\W*\b(?:{_EXCEPTING})\b", re.IGNORECASE)
_THEN_IN_LINES = """
    when which who where then they these that wenn dann wo die der das den da diese welche
    wanneer dan waar dat deze cuando donde entonces que
"""
_THEN = frozenset(_THEN_IN_LINES.split())
"""What a clause begins with that says what holds for an exception before it; perhaps behind a preposition."""
_ITEM = re.compile(r",\s*|\s+(?:and|or|und|oder|sowie|en|of|y|o)\s+")
BUT = re.compile(rf"\W*(?:but|not|unless|aber|nicht|maar|niet|pero|no|{_EXCEPTING})\b", re.IGNORECASE)
"""What a clause begins with that takes something away from what was said before."""


_CONTRAST = re.compile(
    r",?\s+(?:and|but|und|aber|en|maar|y|pero)\s+(?:not|nicht|niet|no)\b([^,.;:!?\n]*(?:\n[^,.;:!?\n]+)?)",
    re.IGNORECASE,
)
"""What a sentence says not to be so, behind what it says: the no is to these words alone."""


class Contradictions:
    """Of one question and its passages."""

    def __init__(self, question: Question, weights: Weights) -> None:
        self._question, self._share = question, weights.share

    def of(self, claim: Claim, words: Sequence[str], statement: Statement) -> tuple[bool, bool]:
        """Whether a statement contradicts a claim, and whether that is sure: by its clauses and as a whole.

        Args:
            words: the claim's content words.
        """
        asked = self._question
        text, there = statement.text, words_of(statement.text)
        if elsewhere := others(claim.said, [*there, *asked.words]):
            return True, bool(others(elsewhere, statement.around))
        if not (claim.negations or any(near(word, asked.asked) for word in words)):
            return False, False  # a name or a number, not a statement: whether it is so, the question says
        if statement.row is not None:
            states = claim.verdict or claim.negations  # a row's no belongs to what else was asked
            text = statement.row.says(words, {*asked.content, *words} if states else ())
            there = words_of(text)
        else:
            text = self._without_contrasts(words, self._half(words, text))
            there = words_of(text)
        excepted = self._excepted(claim, words, text)
        if excepted is not None:
            return excepted, excepted
        denies = turned(claim.said, there)
        if denies and not WITHOUT.isdisjoint(claim.said) and not (_saying_no(claim.said) or _saying_no(there)):
            return True, True  # "allowed without flash", and "forbidden"
        whole = (claim.negations != negations(there)) != denies
        if self._share(list(statement.words), frozenset(words)) >= NEARLY:
            return whole, whole
        there = words_of(self._deciding(words, clauses(text)))
        nearly = (claim.negations % 2 != negations(there) % 2) != turned(claim.said, there)
        return nearly, nearly and whole

    def _half(self, words: Sequence[str], text: str) -> str:
        """The part between semicolons that has nearly all of a claim's words, or else the whole sentence: "Ropes are
        not lent; in the hall a rope costs 6 euros"."""
        of = self._question.vocabulary.of
        return next((half for half in text.split(";") if self._share(words, frozenset(of(half))) >= NEARLY), text)

    def _without_contrasts(self, words: Sequence[str], text: str) -> str:
        """A sentence without what it says not to be so in place of a claim: "two bags of rye and not of wheat"."""
        claimed = frozenset(words)

        def kept(contrast: re.Match[str]) -> str:
            before = frozenset(self._question.vocabulary.of(text[: contrast.start()]))
            other = [word for word in self._question.vocabulary.of(contrast[1]) if not near(word, before)]
            return contrast[0] if not other or any(near(word, claimed) for word in other) else ""

        return _CONTRAST.sub(kept, text)

    def _excepted(self, claim: Claim, words: Sequence[str], text: str) -> bool | None:
        """Whether a clause that makes an exception of some of a claim's words contradicts it: "closed, except on Easter
        Monday" says that it is open then. None without such a clause. If the claim makes an exception itself, what it
        says before that is compared with what the statement says before its own.

        What stands behind the exception says what holds then: "…, except on Mondays, when only one is allowed"."""
        parts, said = clauses(text), " ".join(claim.said)
        if made := EXCEPTION.search(said):
            number = next((n for n, part in enumerate(parts) if n and EXCEPTION.match(part)), None)
            own, there = words_of(said[: made.start()]), words_of(" ".join(parts[:number]))
            if number is None or not own:
                return None
            return (negations(own) % 2 != negations(there) % 2) != turned(own, there)
        for number, (before, part) in enumerate(pairwise(parts), 1):
            if not (EXCEPTION.match(part) and self._names(words, _ITEM.split(EXCEPTION.sub("", part)))):
                continue
            behind = words_of(" ".join(parts[number + 1 :]))
            behind = behind if not _THEN.isdisjoint(behind[:2]) else []
            there = behind or words_of(before)
            denies = negations(there) + (not behind and not ONLY.isdisjoint(there))  # "only …, except cleaners"
            says_no = (denies % 2 != claim.negations % 2) != turned(claim.said, there)
            if behind:
                known = [*behind, *words_of(part), *self._question.words]
                return says_no or bool(others(claim.said, known)) or self._only_before(words, part, before, behind)
            return not says_no
        return None

    def _only_before(self, words: Sequence[str], part: str, before: str, behind: Sequence[str]) -> bool:
        """Whether what a claim says of an exception is said of all else alone: "parking is free, except at the fair,
        when it costs 4 euros", of free parking at the fair."""
        of = self._question.vocabulary.of
        excepted, there, then = (frozenset(of(text)) for text in (part, before, " ".join(behind)))
        said = [word for word in words if not near(word, excepted)]
        return any(near(word, there) for word in said) and not any(near(word, then) for word in said)

    def _names(self, words: Sequence[str], items: Sequence[str]) -> bool:
        """Whether a claim has all words of a thing among some."""
        contents = map(self._question.vocabulary.of, items)
        return any(content and all(near(word, frozenset(words)) for word in content) for content in contents)

    def _deciding(self, words: Sequence[str], parts: Sequence[str]) -> str:
        """The clause that says whether a claim is so: the one with most of its words, but for one that takes some of
        them away, such as "… in the hall, but not in the workshop"."""
        contents = [frozenset(self._question.vocabulary.of(part)) for part in parts]
        first = max(range(len(parts)), key=lambda n: self._share(words, contents[n]))
        lacking = frozenset(words) - contents[first]
        without = next((n for n, part in enumerate(parts) if BUT.match(part) and lacking & contents[n]), None)
        if without is not None:
            return parts[without]
        start = next((n for n in range(first) if lacking & contents[n]), first)
        listed = all(map(_is_listed, map(words_of, parts[start + 1 : first + 1])))
        return ", ".join(parts[start : first + 1]) if listed and negations(words_of(parts[start])) else parts[first]


def _is_listed(words: Sequence[str]) -> bool:
    """Whether a part of a sentence goes on with a list: "We do not repair ovens, mobile phones and fridges." """
    return not negations([*words]) and GOES_ON.isdisjoint(words)


def repeats(claim: Claim, statement: Statement) -> bool:
    """Whether a claim has nearly all words of a sentence, but for those that say no."""
    words = {word for word in words_of(statement.text) if word not in NEGATIONS}
    return statement.row is None and len(words.intersection(claim.said)) >= NEARLY * len(words) > 0


def _saying_no(words: Sequence[str]) -> int:
    """How many of the words say no to more than what is left out: "without" says it to the next words alone."""
    return negations([word for word in words if word not in WITHOUT])
