"""Denials: what surely speaks against a claim, whatever words it shares with a statement.

By the claim itself ("Yes, dogs are not allowed"), by another statement of the passages that rules it out, or as the
statement that it rests on is about something else than was asked. Each rule is one method.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.support.claim import Claim
from workers.support.contradiction import BUT
from workers.support.passages.rows import Row
from workers.support.passages.sentences import clauses
from workers.support.question import Question
from workers.support.statement import Statement
from workers.support.words.asking import IF, condition
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import turned
from workers.support.words.units import counts_another
from workers.support.words.word_forms import near

MOSTLY = 0.6
"""Share of its words that were asked, from which on a clause behind a yes says what was asked."""


class Denials:
    """Of one question and its passages."""

    def __init__(self, question: Question, statements: Sequence[Statement]) -> None:
        self._question, self._statements = question, statements
        self._within = {(one.passage, number) for one in statements for number, has in one.sizes.items() if has}
        self._conditional = any(map(self._has_condition, statements))

    def of_claim(self, text: str, claim: Claim, words: Sequence[str]) -> bool:
        """Whether a claim denies itself, or a statement rules it out.

        Args:
            text: the claim's.
            words: its content words.
        """
        if claim.is_at_odds_with(self._question.words) or self._takes_back(text, claim):
            return True
        if claim.verdict == "no" or claim.negations:
            return False
        return self._is_ruled_out(frozenset(words), bool(claim.verdict))

    def of_statement(self, claim: Claim, words: Sequence[str], statement: Statement) -> bool:
        """Whether a statement that has words of a claim is about something else than was asked."""
        if statement.row is not None:
            return self._is_of_another(claim, words, statement.row)
        if any((statement.passage, size) in self._within and not has for size, has in statement.sizes.items()):
            return True  # another sentence is about such a size
        if self._conditional and self._question.condition.isdisjoint(statement.words):
            return True  # another sentence says what holds under the condition that was asked for
        asked = self._question
        return counts_another(claim.said, words_of(statement.text), asked.words, asked.vocabulary.content)

    def denies_what_was_asked(self, text: str) -> bool:
        """Whether a sentence only says that something that was asked for is not so: "Tuesday is our closing day." """
        words = words_of(text)
        content = self._question.vocabulary.content(words)
        denies = (negations(words) % 2 != negations(self._question.words) % 2) != turned(words, self._question.words)
        return denies and len(content) > 1 and set(self._question.content).issuperset(content)

    def compares(self, own: Sequence[str], row: Row) -> bool | None:
        """Whether a row that a claim names has a number as was asked for: "Which … cost more than 30 euros?" """
        if self._question.range is None or not row.heads(own):
            return None
        return row.compares(self._question.range, self._question.content)

    def _takes_back(self, text: str, claim: Claim) -> bool:
        """Whether a yes has a clause that denies what was asked: "Yes, dogs are not allowed", "Yes, but not here"."""
        asked = self._question
        if claim.verdict != "yes" or negations(asked.words) % 2 or asked.chooses:
            return False
        for part in clauses(text)[1:]:
            words = words_of(part)
            content = asked.vocabulary.content(words)
            says_no = negations(words) % 2 and not turned(words, asked.words) and IF.isdisjoint(words)
            share = sum(word in asked.content for word in content)
            if content and says_no and share >= (1.0 if BUT.match(part) else MOSTLY) * len(content):
                return True
        return False

    def _is_ruled_out(self, said: frozenset[str], yes: bool) -> bool:
        """Whether a sentence of the passages does so, about words half of which a yes leaves out: "There is no discount
        on cabins" beside "Yes, members get 5 percent off the pitch". Another answer must leave some out, and the
        sentence must have all that was asked: "Visitors may not bring dogs" says how many a visitor may bring."""
        asked = self._question.content
        return any(
            statement.row is None
            and (len(statement.words - said) * 2 >= len(statement.words) if yes else statement.words - said)
            and (yes or statement.words.issuperset(asked))
            and self.denies_what_was_asked(statement.text)
            and all(near(word, statement.around) for word in asked)
            for statement in self._statements
        )

    def _has_condition(self, statement: Statement) -> bool:
        """Whether a sentence is about the condition that was asked for: "It is free if one enrols in four weeks." """
        wanted, content = self._question.condition, self._question.vocabulary.content
        under = content(condition(words_of(statement.text))) if wanted else []
        return bool(under) and wanted.issubset(under)

    def _is_of_another(self, claim: Claim, words: Sequence[str], row: Row) -> bool:
        """Whether a row has a claim's values where they were not asked for, or another yes or no than is claimed."""
        asked = self._question
        own = [word for word in words if word not in asked.content]
        if row.is_elsewhere(own, asked.content, asked.numbers) or self.compares(own, row) is False:
            return True
        if claim.verdict or claim.negations:
            return False
        denies = row.answer(words) is None and negations(asked.words) % 2  # a name: "which room has no …?"
        return row.answer(asked.content) is bool(denies)
