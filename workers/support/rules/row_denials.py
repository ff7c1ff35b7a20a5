"""Rows that a claim is not about: its number stands in another row or column than was asked for.

Each rule is one method. Knows statements and rows; knows no sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.support.claim import Claim
from workers.support.passages.rows import Row
from workers.support.question import Question
from workers.support.rules.other_values import is_valued_elsewhere
from workers.support.statement import Statement
from workers.support.words.asking import wants_person, wants_reason
from workers.support.words.polarity import negations
from workers.support.words.units import measured
from workers.support.words.word_forms import near

FOR = re.compile(
    r"\b(?:for|für|voor|para)\s+(?:(?:an?|the|eine?n?|d(?:ie|as|en|er)|een|het|de|una?|el|la)\s+)?([^\W\d]+)"
)
"""What something is for: "the deposit for a scooter"."""

PRICE = re.compile(
    r"\s*[€£$]?\s?\d+(?:[.,]\d+)?\s?(?:[€£$]|euros?|eur|pounds?|dollars?|francs?|chf)?\s*", re.IGNORECASE
)
"""A cell that is nothing else than a price. Behind the column of prices, such a one counts no people."""


class RowDenials:
    """Of one question and its passages."""

    def __init__(self, question: Question, statements: Sequence[Statement]) -> None:
        self._question, self._statements = question, statements

    def of(self, claim: Claim, words: Sequence[str], statement: Statement) -> bool:
        """Whether a row that has words of a claim is about something else than was asked.

        Args:
            words: the claim's content words.
        """
        row, asked = statement.row, self._question
        if row is None:
            return False
        if claim.verdict != "no" and not wants_reason(asked.words):
            if not claim.verdict and self._is_of_no_row(words, statement):
                return True
            if self._is_priced_for_others(words, row):
                return True
            if row.identifies(measured(claim.said)) or self._is_of_a_lesser_row(words, statement):
                return True
            if not claim.verdict and self._names_the_column(words, row):
                return True
            if self._is_of_a_sibling(words, statement) or self._is_of_a_special_row(words, statement):
                return True
            if asked.wants_fact and is_valued_elsewhere(claim, statement, self._statements, asked):
                return True
        return self._is_of_another(claim, words, row) or self._is_told_of_names(words, statement)

    def compares(self, own: Sequence[str], row: Row) -> bool | None:
        """Whether a row that a claim names has a number as was asked for: "Which … cost more than 30 euros?" """
        if self._question.range is None or not row.heads(own):
            return None
        return row.compares(self._question.range, self._question.content)

    def _is_told_of_names(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether a row lacks names of the question that a sentence has with other numbers: "Members pay 20 % less"."""
        numbers = {word for word in words if word[0].isdigit()}.difference(self._question.content)
        names = [name for name in self._question.names if not near(name, statement.around)]
        return bool(numbers and names) and any(
            one.row is None
            and all(near(name, one.words) for name in names)
            and any(word[0].isdigit() for word in one.words)
            and numbers.isdisjoint(one.words)
            for one in self._statements
        )

    def _is_of_no_row(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether a claim has a number of a row that has nothing of what was asked but what stands above it: "What is
        the deposit for the mower?" beside `Shredder | 100` below `Item | Deposit`."""
        row, asked = statement.row, self._question
        if row is None or row.own_range is not None or any(statement.sizes.values()):
            return False  # what was asked may be among its ages or days
        if not any(word[0].isdigit() for word in words if word not in asked.asked):
            return False
        above = statement.above.union(*row.above)
        names = [word for word in asked.content if word not in asked.vocabulary.pricing and not near(word, above)]
        here = frozenset().union(*row.cells)
        own = frozenset(word for word in words if not word[0].isdigit())
        return bool(names) and not any(near(word, here) for word in names) and not own & row.cells[0]

    def _is_of_a_lesser_row(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether a claim has a number of a row that has fewer of the words that were asked than the head of another
        row, and none of those: "an oil change for a yawl" beside `Yawl | 120` where `Oil change` heads a row."""
        row, asked = statement.row, self._question
        if row is None or not any(word[0].isdigit() and word not in asked.asked for word in words):
            return False
        here = statement.around | statement.words | frozenset().union(*row.above)
        own = [word for word in asked.content if near(word, frozenset().union(*row.cells))]
        heads = (one.row.cells[0] for one in self._statements if one.row is not None)
        return any(
            len(head) > max(len(own), 1) and asked.asked.issuperset(head) and not any(near(word, here) for word in head)
            for head in heads
        )

    def _is_of_a_sibling(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether a claim has a number of a column that was not asked for, and a table has the name of that next
        to a word of the question that this one lacks: a price for cats of a rabbit."""
        row, asked = statement.row, self._question
        if row is None:
            return False
        numbers = {word for word in words if word[0].isdigit() and word not in asked.asked}
        columns = [n for n, cell in enumerate(row.cells) if n and not numbers.isdisjoint(cell) and n < len(row.above)]
        names = frozenset().union(*(row.above[n] for n in columns)).difference(asked.asked)
        here = statement.around.union(*row.cells, *row.above)
        lacking = {word for word in asked.asked if not near(word, here)}
        return any(
            not lacking.isdisjoint(cell) and any(not names.isdisjoint(other) for other in axis if other is not cell)
            for one in self._statements
            if one.row is not None and lacking
            for axis in (one.row.labels, one.row.above[1:])
            for cell in axis
        )

    def _names_the_column(self, words: Sequence[str], row: Row) -> bool:
        """Whether it was asked who, and a claim has what stands above the row's cell in place of the cell: "The
        instructor teaches …" below `Instructor`, of `Sanne`."""
        asked = self._question
        if not wants_person(asked.words, asked.vocabulary.language):
            return False
        own = frozenset(word for word in words if word not in asked.asked)
        named = [
            n for n, above in enumerate(row.above[: len(row.cells)]) if n and any(near(word, own) for word in above)
        ]
        return bool(named) and all(row.cells[n] and row.cells[n].isdisjoint(own) for n in named)

    def _is_of_a_special_row(self, words: Sequence[str], statement: Statement) -> bool:
        """Whether a claim has a number of a row whose head has more than was asked or said, and another row, with what
        stands above it, has just what was asked: "Ten-ticket group lessons", of a group lesson."""
        row, asked = statement.row, self._question
        if row is None or asked.numbers or asked.double:
            return False
        numbers = {word for word in words if word[0].isdigit() and word not in asked.asked}
        known = asked.asked.union(words)
        wanted = [word for word in asked.content if word not in asked.vocabulary.pricing]
        if not numbers or all(near(word, known) for word in row.cells[0] if not word[0].isdigit()):
            return False
        return any(
            bool(head := one.row.cells[0])
            and head <= asked.asked
            and all(near(word, row.cells[0]) for word in head)
            and all(near(word, one.above.union(head, *one.row.above)) for word in wanted)
            and any(word[0].isdigit() for word in one.words)
            and numbers.isdisjoint(one.words)
            for one in self._statements
            if one.row is not None and one is not statement
        )

    def _is_priced_for_others(self, words: Sequence[str], row: Row) -> bool:
        """Whether a claim has a number of a column of prices, where another is for those whom the price was asked for:
        "for members" """
        asked, pricing = self._question, self._question.vocabulary.pricing
        if asked.double or pricing.isdisjoint(asked.content):
            return False
        of = frozenset(asked.vocabulary.content(FOR.findall(asked.text.casefold())))
        wanted = [n for n, above in enumerate(row.above) if n and above and above <= of and n < len(row.cells)]
        holding = {
            n for n, cell in enumerate(row.cells) if n and any(word[0].isdigit() and word in cell for word in words)
        }
        prices = all(n < len(row.above) and row.above[n] <= pricing for n in holding)
        also = (
            bool(wanted)
            and min(wanted) > max(holding, default=0)
            and all(PRICE.fullmatch(row.texts[n]) for n in wanted)
        )
        return bool(holding) and prices and also and not asked.numbers

    def _is_of_another(self, claim: Claim, words: Sequence[str], row: Row) -> bool:
        """Whether a row has a claim's values where they were not asked for, or another yes or no than is claimed."""
        asked = self._question
        own = [word for word in words if word not in asked.content]
        answers_one = asked.double and row.has_in_named(own, asked.columns)  # what else it says, the other part asks
        elsewhere = row.is_elsewhere(own, asked.columns, asked.numbers) and not answers_one
        if elsewhere or self.compares(own, row) is False:
            return True
        if claim.verdict or claim.negations:
            return False
        denies = row.answer(words) is None and negations(asked.words) % 2  # a name: "which room has no …?"
        return row.answer(asked.content) is bool(denies)
