"""Denials: what surely speaks against a claim, whatever words it shares with a statement.

By the claim itself ("Yes, dogs are not allowed"), by another statement of the passages that rules it out, or as the
statement that it rests on is about something else than was asked. Each rule is one method.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, takewhile

from workers.support.claim import Claim
from workers.support.contradiction import BUT, EXCEPTION
from workers.support.passages.rows import Row
from workers.support.passages.sentences import clauses
from workers.support.question import Question
from workers.support.rules.afterwards import is_before
from workers.support.rules.decisions import is_decided_otherwise
from workers.support.rules.other_values import (
    is_free_for_whom_was_asked,
    is_refused_elsewhere,
    is_valued_before,
    is_valued_elsewhere,
    is_valued_otherwise,
)
from workers.support.rules.pairs import is_paired_otherwise
from workers.support.rules.row_denials import FOR, RowDenials
from workers.support.rules.ruling_out import (
    MOSTLY,
    OTHERWISE,
    denies_it_all,
    goes_on_meanwhile,
    is_for_the_rest_only,
    is_plainly_denied,
    is_said_of_another,
    lacks_only,
    restricts,
    rules_out,
)
from workers.support.statement import Statement, sizes_in
from workers.support.times import is_of_other_times, says_it_of_times
from workers.support.words.asking import IF, condition, wants_reason
from workers.support.words.days import DAYS
from workers.support.words.groups import counts_for_another
from workers.support.words.per import is_per_another
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import STATES, says_no, turned
from workers.support.words.time_ends import is_other_end
from workers.support.words.units import (
    EXTRA,
    counts_another,
    counts_otherwise,
    lacks_amount,
    measures_another,
    names_share,
)
from workers.support.words.word_forms import SHARED, near

ITEM = 4
"""Most words behind "except" that name the exception."""


KIND = 3
"""Fewest letters of a thing, and of what makes a kind of it: pea, nut."""


class Denials:
    """Of one question and its passages."""

    def __init__(self, question: Question, statements: Sequence[Statement]) -> None:
        self._question, self._statements = question, statements
        self._rows = RowDenials(question, statements)
        self._within = {(one.passage, number) for one in statements for number, has in one.sizes.items() if has}
        self._states = frozenset(question.vocabulary.content(set(STATES.values())))
        self._words = frozenset().union(*(one.words | one.around for one in statements))
        self._conditional = any(map(self._has_condition, statements))

    def of_claim(self, text: str, claim: Claim, words: Sequence[str]) -> bool:
        """Whether a claim denies itself, or a statement rules it out.

        Args:
            text: the claim's.
            words: its content words.
        """
        asked = self._question
        if claim.is_at_odds_with(asked.words) or self._takes_back(text, claim) or self._is_for_other_sizes(text, claim):
            return True
        if is_decided_otherwise(claim, self._statements, asked):
            return True
        if measures_another(claim.said, asked.words) or lacks_amount(claim.said, asked.words):
            return True
        if claim.verdict == "no":
            return False
        if any(goes_on_meanwhile(statement, claim.said, asked) for statement in self._statements):
            return True
        said, yes = frozenset(words), bool(claim.verdict)
        if yes and is_of_other_times(text, self._question):
            return True
        if yes and self._is_only_otherwise(said):
            return True
        for statement in self._statements:
            if is_for_the_rest_only(statement, asked) if yes else denies_it_all(statement, said, asked):
                return True
        if claim.negations:
            return False
        counted = any(word[0].isdigit() for word in claim.said)
        if yes and not counted and is_plainly_denied(self._statements, said, asked):
            return True
        if self._is_other_end(claim) or self._is_of_nothing_here(claim, words):
            return True
        return any(rules_out(statement, said, yes, asked) for statement in self._statements)

    def of_statement(self, claim: Claim, words: Sequence[str], statement: Statement) -> bool:
        """Whether a statement that has words of a claim is about something else than was asked."""
        fact = claim.verdict != "no" and not wants_reason(self._question.words)
        if fact and self._is_of_another_size(statement):
            return True
        if statement.row is not None:
            return self._rows.of(claim, words, statement)
        if claim.verdict != "no" and self._is_otherwise(claim, words, statement):
            return True
        yes = claim.verdict == "yes"
        affirms = yes or (fact and not claim.negations and self._question.asked.issuperset(words))
        if affirms and is_said_of_another(statement, self._statements, self._question):
            return True
        if yes and (restricts(statement, words, self._question) or is_of_other_times(statement.text, self._question)):
            return True
        told = fact and not claim.verdict
        if told and says_it_of_times(claim, self._question) and is_of_other_times(statement.text, self._question):
            return True
        there, language = words_of(statement.text), self._question.vocabulary.language
        if fact and is_per_another(claim.said, there, self._question.words, language):
            return True
        if told and (self._is_of_another_name(claim, words, statement) or self._is_extra(claim, statement)):
            return True
        if self._is_said_elsewhere(words, statement) or self._is_counted_elsewhere(words, statement):
            return True
        if self._is_of_a_kind(words, statement):
            return True
        if fact and counts_for_another(claim.said, self._question.words, statement.text):
            return True
        if self._conditional and self._question.condition.isdisjoint(statement.words):
            return True  # another sentence says what holds under the condition that was asked for
        asked = self._question
        return counts_another(claim.said, words_of(statement.text), asked.words, asked.vocabulary.content)

    def _is_otherwise(self, claim: Claim, words: Sequence[str], statement: Statement) -> bool:
        """Whether another part of a sentence, or another sentence, says something else of what was asked."""
        asked = self._question
        judges = claim.verdict == "yes" or asked.asked.issuperset(words)
        if judges and is_free_for_whom_was_asked(claim, statement, asked):
            return True
        if claim.verdict and is_refused_elsewhere(claim, statement, self._statements, asked):
            return True
        if is_valued_otherwise(claim, statement, asked) or is_valued_before(claim, statement, asked):
            return True
        if is_before(claim, statement, self._statements, asked) or is_paired_otherwise(claim, statement, asked):
            return True
        return asked.wants_fact and is_valued_elsewhere(claim, statement, self._statements, asked)

    def compares(self, own: Sequence[str], row: Row) -> bool | None:
        """As `RowDenials.compares`."""
        return self._rows.compares(own, row)

    def _takes_back(self, text: str, claim: Claim) -> bool:
        """Whether a yes has a clause that denies what was asked: "Yes, dogs are not allowed", "Yes, but not here"."""
        asked = self._question
        if claim.verdict != "yes" or negations(asked.words) % 2 or asked.chooses:
            return False
        if self._is_excepted(claim):
            return True
        for part in clauses(text)[1:]:
            words = words_of(part)
            content = asked.vocabulary.content(words)
            says_no = negations(words) % 2 and not turned(words, asked.words) and IF.isdisjoint(words)
            share = sum(word in asked.content for word in content)
            if content and says_no and share >= (1.0 if BUT.match(part) else MOSTLY) * len(content):
                return True
        return False

    def _is_excepted(self, claim: Claim) -> bool:
        """Whether a yes makes an exception of what was asked: "Yes, 15 percent off all rooms except the kitchen"."""
        said, of = " ".join(claim.said), self._question.vocabulary.of
        made = EXCEPTION.search(said)
        before = words_of(said[: made.start()]) if made else []
        if made is None or negations(before) or says_no(before):
            return False
        behind = takewhile(lambda word: not word[0].isdigit(), words_of(said[made.end() :])[:ITEM])
        there, excepted = frozenset(of(" ".join(before))), frozenset(of(" ".join(behind)))
        alone = len(excepted) == 1  # nothing else of it is excepted, such as its evenings
        return any(near(word, excepted) and (alone or not near(word, there)) for word in self._question.content)

    def _is_of_a_kind(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether a claim names a thing in place of a kind of it that a sentence is about, and the passages have both:
        nuts, of peanuts. English alone: in German, "die Karte" may be the Jahreskarte."""
        if self._question.vocabulary.language != "en":
            return False
        others = statement.words.difference(words, self._question.asked)
        return any(
            word in self._words and word not in statement.words and any(_is_kind(other, word) for other in others)
            for word in words
            if word not in self._question.asked
        )

    def _is_extra(self, claim: Claim, statement: Statement) -> bool:
        """Whether a claim has a number of a sentence that is about what comes on top, which nobody asked for."""
        there = words_of(statement.text)
        if EXTRA.isdisjoint(there) or sum(word[0].isdigit() for word in there) != 1:
            return False  # of several numbers, nobody knows which is on top
        numbers = any(word[0].isdigit() and word not in self._question.words for word in claim.said)
        return numbers and EXTRA.isdisjoint([*claim.said, *self._question.words])

    def _is_of_another_size(self, statement: Statement) -> bool:
        """Whether another sentence of the passage is about a size that was asked for, and this one is not."""
        return any((statement.passage, size) in self._within and not has for size, has in statement.sizes.items())

    def _is_other_end(self, claim: Claim) -> bool:
        """Whether it names when something ends where it was asked when it begins, or the other way round."""
        asked = self._question
        return any(
            is_other_end(asked.text, claim.said, statement.text)
            and all(near(name, statement.told(asked.content, asked)) for name in asked.names)
            for statement in self._statements
        )

    def _is_for_other_sizes(self, text: str, claim: Claim) -> bool:
        """Whether it says what holds under a condition that excludes the size that was asked for: "Up to 30 days before
        arrival, it is free" of 5 days before."""
        asked = self._question
        if wants_reason(asked.words):
            return False
        if claim.verdict == "no" or not (claim.verdict or asked.wants_fact) or not OTHERWISE.isdisjoint(claim.said):
            return False
        sizes = sizes_in(text, asked)
        return bool(sizes) and not any(sizes.values())

    def _is_only_otherwise(self, said: frozenset[str]) -> bool:
        """Whether a statement says of all but one word of the question that it is so with something else only, while
        that word, no day or month, stands in another statement, and none has all that was asked."""
        asked = self._question.asked
        if any(all(near(word, one.words) for word in asked) for one in self._statements):
            return False
        times = self._question.month_words.union(self._question.days)
        return any(
            lacking not in times and any(near(lacking, one.words) for one in self._statements)
            for lacking in (lacks_only(one, said, self._question) for one in self._statements)
            if lacking is not None
        )

    def _has_condition(self, statement: Statement) -> bool:
        """Whether a sentence is about the condition that was asked for: "It is free if one enrols in four weeks." """
        wanted, content = self._question.condition, self._question.vocabulary.content
        under = content(condition(words_of(statement.text))) if wanted else []
        return bool(under) and wanted.issubset(under)

    def _is_said_elsewhere(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether another statement speaks of what was asked and this one does not: it has no word of the question, or
        not its names: "Photography is allowed" beside "In the Copper Room photography is forbidden", of that room."""
        asked = self._question.asked
        own = frozenset(word for word in words if not near(word, asked))
        if len(asked) < 2 or not own:
            return False
        own -= self._states
        silent = not any(near(word, statement.words) for word in asked)
        about_other = any(not near(word, statement.around) for word in asked)
        if not (silent and about_other) and not self._names_missing(statement):
            return False
        missing = [name for name in self._names_missing(statement) if not near(name, statement.around)]
        named = frozenset(word for word in own if not word[0].isdigit()) or own
        return any(
            one.words.isdisjoint(own) and all(near(word, one.words) for word in asked)
            if one.row is None
            else bool(missing) and one.words.isdisjoint(named) and one.row.is_headed_by(missing)
            for one in self._statements
        )

    def _is_counted_elsewhere(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether another statement has a number for what was asked that a claim has not: a row and a column of a table
        where this one lacks words of the question, or a sentence with its name about the same things: "In July, one
        guest only" beside "Two guests are free"."""
        asked = self._question
        numbers = {word for word in words if word[0].isdigit()}
        numbers = numbers.difference(asked.content) or numbers
        if not numbers:
            return False
        missing = (word for word in asked.content if word not in asked.vocabulary.pricing)
        if any(not near(word, statement.around) for word in missing) and any(
            one.row is not None and one.row.answers_otherwise(numbers, asked.content) for one in self._statements
        ):
            return True
        if self._is_sized_elsewhere(numbers, statement):
            return True
        names, there = self._names_missing(statement), words_of(statement.text)
        return bool(names) and any(
            one.row is None
            and one.passage == statement.passage
            and one.words.issuperset(names)  # a compound of the name is something else: "Ponyreiten"
            and (
                counts_otherwise(words_of(one.text), there, numbers, asked.vocabulary.content)
                or (names_share(words_of(one.text)) and not one.words.isdisjoint(asked.asked.difference(names)))
            )
            for one in self._statements
        )

    def _is_sized_elsewhere(self, numbers: set[str], statement: Statement) -> bool:
        """Whether another sentence of the passage has other numbers for a size that was asked for: "Up to 21 years, it
        costs 12 euros" beside "It costs 28 euros". Or this one has them for another size alone: "Groups of 10 to 24 get
        10 %; groups of 25 or more get 20 %"."""
        asked, of = self._question, self._question.vocabulary.of
        if any(statement.sizes.values()):
            parts = statement.text.split(";")
            others = [part for part in parts if (sizes := sizes_in(part, asked)) and not any(sizes.values())]
            rest = of(" ".join(part for part in parts if part not in others))
            return bool(others) and numbers.issubset(of(" ".join(others))) and numbers.isdisjoint(rest)
        about = frozenset(asked.columns)
        return not statement.sizes and any(
            one.row is None
            and one.passage == statement.passage
            and any(one.sizes.values())
            and not about.isdisjoint(one.words)
            and len([word for word in one.words if word[0].isdigit()]) > 1
            and numbers.isdisjoint(one.words)
            for one in self._statements
        )

    def _is_of_another_name(self, claim: Claim, words: Sequence[str], statement: Statement) -> bool:
        """Whether a claim has a number or date for names of the question, and its statement is about none of them: "The
        Holzkurs takes place on 8 March" beside "The meeting takes place on 8 March"."""
        names, asked = self._question.names, self._question.asked
        dated = any(word[0].isdigit() and word not in asked for word in words) or not DAYS.keys().isdisjoint(claim.said)
        if not dated or not any(name in words for name in names):
            return False
        return not any(near(name, statement.around | statement.words) for name in names)

    def _is_of_nothing_here(self, claim: Claim, words: Sequence[str]) -> bool:
        """Whether a claim has a price for a thing that it names as the question does, and that no passage has: "The
        deposit for a scooter is 40 euros"."""
        asked = self._question
        if claim.verdict or not any(word[0].isdigit() and word not in asked.asked for word in words):
            return False
        if asked.vocabulary.pricing.isdisjoint(words):
            return False
        things = chain.from_iterable(asked.vocabulary.of(said) for said in FOR.findall(asked.text.casefold()))
        return any(self._is_unknown(word) for word in things if word in words)

    def _is_unknown(self, word: str) -> bool:
        if len(word) < SHARED - 1 or word in self._question.vocabulary.pricing or word in self._states:
            return False
        begins = word[:SHARED]
        return not any(other.startswith(begins) or word in other for other in self._words)

    def _names_missing(self, statement: Statement) -> list[str]:
        """The names of the question that neither a statement nor the headings above it have."""
        return [name for name in self._question.names if not near(name, statement.words | statement.above)]


def _is_kind(word: str, of: str) -> bool:
    return of != "day" and word.endswith(of) and min(len(of), len(word) - len(of)) >= KIND
