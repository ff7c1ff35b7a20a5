"""Evidence: how much of what a sentence claims stands in one sentence of the passages, as an answer to the question.

A claim's own words, those that the question does not have, must stand in a sentence that speaks of what was asked.
Rare words weigh more (`weights.py`). Overlap alone is not enough: where the claim says no and the sentence does not, or
the other way round, or a number of the claim is neither in the sentence nor in the question (`contradiction.py`), or
something else surely speaks against it (`denials.py`), little of it is left.

What was asked may also stand in the headings above the sentence. Nearly all words of "Yes, … is open on Mondays" are
the question's, so they show nothing by themselves. All of them, and the names of the question, must stand in the
sentence, or in its paragraph and the headings above it.

Pure: a function of question, claim and passages. Knows words; knows no model and no prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from workers.support.claim import Claim
from workers.support.contradiction import Contradictions, repeats
from workers.support.denials import Denials
from workers.support.passages.rows import UNITLESS
from workers.support.question import JOINED, Question
from workers.support.rules.reductions import is_reduced_for_whom_was_asked
from workers.support.rules.ruling_out import takes_back
from workers.support.statement import Statement, statements_of
from workers.support.times import is_of_every_month, is_of_other_times, is_of_times
from workers.support.weights import Weights
from workers.support.words.asking import gives_reason, wants_reason
from workers.support.words.days import days_in, names_days_otherwise
from workers.support.words.months import dates_in, spans_in
from workers.support.words.months import invented as dates_nowhere
from workers.support.words.numbers import others, usual_form
from workers.support.words.polarity import words_of
from workers.support.words.states import says_no
from workers.support.words.units import lacks_price, priced_in, with_currencies
from workers.support.words.word_forms import heads, near

CONTRADICTED = 0.2
"""What is left of the evidence of a sentence that says the opposite, or another number."""
INSIDE = 0.6
"""Weight of what a sentence has of the question itself, beside what it has together with its headings."""
PER_WORD = 0.02
"""A longer sentence has words of the question by chance."""
ELSEWHERE = 0.5
"""What is left of a sentence without a name such as P1 that was asked for, and that others have."""
TITLE = 60
"""A shorter line without a point at its end, a figure, or a sign of a list or a table, may be a heading."""
_DATE = re.compile(r"[0-3]?\d\.[01]?\d\.((?:19|20)\d\d)")
"""A word that is a date, and its year."""
_NUMBERING = re.compile(r"^\d+(?:\.\d+)*[.)]?\s+")
_LINK = re.compile(r"(?:[-*•]\s+)?\[[^\]]*\]\([^)]*\)\W*")
"""A line that is nothing else, as in a table of contents."""
SIZED = 1.5
"""How much nearer a sentence is with a range that has a number of the question: "Seven days or less" of three days."""
NEAR = 0.25
"""Least of the question that the nearest sentence has."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best sentence for a claim.

    Attributes:
        evidence: from 0 (none) to 1 (it says all of the claim and speaks of all that was asked).
        covered: share of all the claim's words that the sentence has.
        passage: index of its passage; -1 where nothing of the claim was found.
        start, end: its place in the passage's text, in code points.
        contradicts: it says the opposite, or another number.
        denied: surely so; or no passage has a number or day of the claim, or a table has it in a row or column that was
            not asked for; or a yes or no has words of the question that neither the sentence nor its paragraph has.
    """

    evidence: float = 0.0
    covered: float = 0.0
    passage: int = -1
    start: int = 0
    end: int = 0
    contradicts: bool = False
    denied: bool = False


class Evidence:
    """The sentences of some passages, to be searched for claims.

    Args:
        question: what was asked, in a form that stands alone.
        passages: their texts, best first. Titles do not count: they often repeat the question.
        language: of the question, an ISO 639-1 code.
        titles: title of each passage and the headings above its text, each in a line, if they are known. The first row
            of a table that begins before the passage is the last one.
    """

    def __init__(
        self, question: str, passages: Sequence[str], language: str = "en", titles: Sequence[str] = ()
    ) -> None:
        self._question = Question(question, language, passages)
        self._statements = [*statements_of(passages, titles, self._question)]
        self._weights = Weights([one.words for one in self._statements], self._question)
        self._contradictions = Contradictions(self._question, self._weights)
        self._denials = Denials(self._question, self._statements)
        self._there = frozenset().union(*(one.words for one in self._statements))
        self._by_place = {(one.passage, one.start): one for one in self._statements}
        shown = (*passages, *titles, question)
        all_days = any(map(names_days_otherwise, shown)) or not any(map(days_in, (*passages, *titles)))
        self._shown_days = frozenset(range(7)) if all_days else frozenset().union(*map(days_in, shown))
        words = [word for text in shown for word in words_of(text)]
        self._shown_words = [*words, *(match[1] for match in map(_DATE.fullmatch, words) if match)]
        self._shown = [f"{title}\n{text}" for text, title in zip_longest(passages, titles, fillvalue="")]

    def of(self, claim: str) -> Found:
        """The sentence with the most evidence for a claim; of equals the first one, of the best passage.

        A question claims nothing.
        """
        return self._best(claim, self._weights.of_question)[0]

    def of_answer(self, claims: Sequence[str]) -> list[Found]:
        """As `of` for the sentences of one answer: together they must speak of what was asked, not each of them."""
        found = self._of_answer(claims)
        said = words_of(" ".join(claims))
        lacking = lacks_price(said, self._question.words) or self._takes_for_price(" ".join(claims))
        return [replace(one, denied=one.denied or lacking or self._is_reduced(claims, one)) for one in found]

    def nearest(self) -> Statement | None:
        """The sentence with most of what was asked, in itself and in the headings above it; None if that is little.

        It need not answer. Of equals the first one, of the best passage; headings are none.
        """
        if not self._question.sought:
            return None
        said = (one for one in self._statements if not (one.words <= one.heading or _states_nothing(one.text)))
        best = max(said, key=self._nearness, default=None)
        return best if best is not None and self._nearness(best) >= NEAR else None

    def spoken(self, text: str) -> float:
        """Share of what was asked that a text has, by weight; of an answer that repeats none of the question, 0."""
        words = frozenset(self._question.vocabulary.content(words_of(text)))
        return self._weights.of_question(words, self._question.sought)

    def _nearness(self, statement: Statement) -> float:
        inside, both = (
            self._weights.of_question(words, self._question.sought)
            for words in (statement.words, statement.words | statement.heading)
        )
        codes = (name for name in self._question.names if not name.isalpha() and not name.isnumeric())
        named = statement.words | statement.around
        beside = any(name in self._there and name not in named for name in codes)
        share = (INSIDE * inside + (1 - INSIDE) * both) / (1 + PER_WORD * len(statement.words))
        share *= SIZED if any(statement.sizes.values()) else 1.0
        return ELSEWHERE * share if beside else share

    def _of_answer(self, claims: Sequence[str]) -> list[Found]:
        first = [self._best(claim, self._weights.of_question) for claim in claims]
        if len(claims) < 2:
            found = [replace(one, denied=one.denied or self._lacks_reason(claims[0], one)) for one, _ in first]
            parted = self._of_parts(claims[0]) if found and not found[0].denied else None
            return [max(*found, parted, key=lambda one: one.evidence)] if parted else found
        together = self._weights.of_question(frozenset().union(*(words for _, words in first)))
        found = [self._best(claim, lambda _: together)[0] for claim in claims]
        if Claim.read(claims[0], self._question.text).verdict != "yes":
            return found
        taken_back = any(takes_back(claim, self._question) for claim in claims[1:])
        return [replace(found[0], denied=True), *found[1:]] if taken_back else found

    def _of_parts(self, claim: str) -> Found | None:
        """The weakest of the parts that "and" joins in an answer to a question with parts, if each says something that
        was not asked; together they must speak of what was asked. None for others."""
        if not self._question.double:
            return None
        asked = set(self._question.content)
        parts = [part for part in JOINED.split(claim) if not asked.issuperset(self._question.vocabulary.of(part))]
        if len(parts) < 2:
            return None
        first = [self._best(part, self._weights.of_question) for part in parts]
        together = self._weights.of_question(frozenset().union(*(words for _, words in first)))
        found = [self._best(part, lambda _: together)[0] for part in parts]
        there = [self._by_place.get((one.passage, one.start)) for one in found]
        sections = {one and (one.passage, one.heading) for one in there}
        return min(found, key=lambda one: (not one.denied, one.evidence)) if len(sections) == 1 else None

    def _best(self, text: str, of_question: Callable[[frozenset[str]], float]) -> tuple[Found, frozenset[str]]:
        """The best sentence for a claim, and its words."""
        asked, share = self._question, self._weights.share
        claim = Claim.read(text, asked.text)
        words = asked.vocabulary.content(claim.said)
        own = [word for word in words if word not in asked.content]
        judges = bool(claim.verdict) or not own  # says that what was asked is so, or not
        told = [word for word in words if word in asked.content] if judges else []
        told = [word for word in told if not (claim.verdict and word in asked.vocabulary.pricing)]
        if claim.verdict:  # a no may name another number than the one that was asked about
            told += [name for name in asked.names if claim.verdict == "yes" or not name[0].isdigit()]
        dates = dates_in(text)
        nowhere = dates_nowhere(text, self._shown, asked.dates) if dates else frozenset()
        days = {f"{date.day}" for date in dates - nowhere}  # "17 April" of 17.04.2026
        unknown = others([word for word in claim.said if word not in days], self._shown_words)
        invented = bool(nowhere) or any(word[0].isdigit() for word in unknown)
        invented = invented or not (claim.negations or says_no(claim.said) or days_in(text) <= self._shown_days)
        best: tuple[Found, frozenset[str]] = Found(denied=invented), frozenset()
        best_rank = False, 0.0, False
        if not words or text.rstrip().endswith(("?", "？")):
            return best
        at_odds = self._denials.of_claim(text, claim, words)
        best = Found(denied=invented or at_odds), frozenset()
        for statement in self._statements:
            if judges and len(statement.words) < 2 and _states_nothing(statement.text):
                continue  # a heading of one word, in a text without signs of headings
            there = statement.told(own or words, asked)
            if statement.row is not None and self._denials.compares(own, statement.row):
                there |= {number for number, _ in asked.numbers}
            if any(statement.sizes.values()):
                there |= UNITLESS.union(number for number, has in statement.sizes.items() if has)
            all_year = not asked.dates and is_of_every_month(statement.text)
            if asked.months and (all_year or any(asked.months <= span for span in spans_in(statement.text))):
                there |= asked.month_words
            otherwise = bool(asked.months) and is_of_other_times(statement.text, asked)
            if otherwise or (asked.dates and is_of_times(statement.text, asked)):
                there |= asked.date_words
            if judges:  # other forms of a word of the question: photographing, photographed
                there |= {word for word in told if self._speaks_of(word, statement.words)}
            stated = share(own or words, there)
            if not stated:
                continue
            if judges and repeats(claim, statement):  # says it of what the paragraph is about
                stated = share(own or words, there | statement.around)
                there |= statement.around
            evidence = stated * of_question(there | statement.heading)
            contradicts, surely = self._contradictions.of(claim, words, statement)
            if otherwise and (claim.negations % 2 or says_no(claim.said)) and self._is_borne_out(claim, statement):
                contradicts = surely = False  # "from 1 May to 10 June" says that it is not open on 12 June
            speaks_of_it = all(self._speaks_of(word, statement.around | there) for word in told)
            speaks_of_it = speaks_of_it and not (judges and statement.row and statement.row.is_beside(asked.content))
            denied = invented or at_odds or surely or not speaks_of_it or (judges and contradicts)
            denied = denied or self._denials.of_statement(claim, words, statement)
            spoken = evidence
            if contradicts or denied:
                evidence *= CONTRADICTED
            # A yes or no is about the sentence that speaks most of what was asked, whatever that says.
            rank = (speaks_of_it, spoken, not denied) if judges else (True, evidence, True)
            if evidence and rank > best_rank:
                best_rank = rank
                covered = share(words, there)
                place = statement.passage, statement.start, statement.end
                best = Found(evidence, covered, *place, contradicts, denied), there | statement.heading
        return best

    def _is_borne_out(self, claim: Claim, statement: Statement) -> bool:
        """Whether a no to a time outside a statement's spans has no other numbers, and denies no span."""
        known = [*words_of(statement.text), *self._question.words]
        return not others(claim.said, known) and not spans_in(" ".join(claim.said))

    def _speaks_of(self, word: str, there: frozenset[str]) -> bool:
        """Whether words have one of the question, and if a passage has it itself, not its first part alone: of the hut
        shop, not the hut."""
        return near(word, frozenset(one for one in there if not heads(one, word)) if word in self._there else there)

    def _is_reduced(self, claims: Sequence[str], found: Found) -> bool:
        """Whether an answer names a price, and those who were asked about pay less."""
        there = self._by_place.get((found.passage, found.start))
        return there is not None and is_reduced_for_whom_was_asked(
            " ".join(claims), there, self._statements, self._question
        )

    def _takes_for_price(self, answer: str) -> bool:
        """Whether all amounts of an answer are numbers of the question, and none is one in the passages: "5 kg of rye
        flour 1150 cost 1150 euros"."""
        asked, priced = self._question, _priced(answer)
        plain = {usual_form(word) for word in asked.words if word[0].isdigit()} - _priced(asked.text)
        return (
            bool(priced)
            and priced <= plain
            and not any(
                priced & _priced(one.text) or (one.row and one.row.has_in_named(priced, asked.columns))
                for one in self._statements
            )
        )

    def _lacks_reason(self, claim: str, found: Found) -> bool:
        """Whether it was asked why, and neither a claim nor its sentence has a word that a reason comes with."""
        there = self._by_place.get((found.passage, found.start))
        if there is None or not wants_reason(self._question.words):
            return False
        return not gives_reason(words_of(f"{claim} {there.text}"))


def _priced(text: str) -> set[str]:
    return priced_in(words_of(with_currencies(text)))


def _states_nothing(text: str) -> bool:
    """Whether it asks, or is a heading without a sign of one, or a link."""
    line = _NUMBERING.sub("", text.strip()).rstrip("*_)]}\"'”“»")
    tells = text.lstrip().startswith(("-", "*", "•", "|")) or any(map(str.isdigit, line))
    is_title = len(line) <= TITLE and not tells and not line.endswith((".", "!", ":", ";", "…", "。", "！"))
    return line.endswith(("?", "？")) or _LINK.fullmatch(text.strip()) is not None or is_title
