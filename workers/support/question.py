"""Question: what was asked, read once for all sentences. Knows words; knows no passages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from workers.support.passages.ranges import Range
from workers.support.passages.rows import Size
from workers.support.words.asking import condition
from workers.support.words.days import DAYS
from workers.support.words.months import MONTHS, dates_in, months_in
from workers.support.words.numbers import numbers, usual_form
from workers.support.words.polarity import words_of
from workers.support.words.vocabulary import Vocabulary

_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
NEXT = 1e-6
"""How far a number inside a range is from its end."""
_ASKING_IN_LINES = """
    what which who whom when where how why
    was welche welcher welches welchen wer wen wem wann wo wie wieviel warum
    wat welk welke wie wanneer waar hoe hoeveel waarom
    qué cuál cuáles quién cuándo dónde cómo cuánto cuánta
"""
_ASKING = frozenset(_ASKING_IN_LINES.split())
_HOLDING_IN_LINES = """
    apply applies applied hold holds gilt gelten geldt gelden aplica aplican vale valen
    stay stays remain remains keep keeps bleibt bleiben blijft blijven sigue siguen
"""
_HOLDING = _HOLDING_IN_LINES.split()
"""Verbs that say that something holds, or goes on: they add nothing to what does."""
_BRINGING_IN_LINES = """
    bring brings bringing come comes along take takes mitbringen mitnehmen mitkommen bringt kommt mitgebracht
    meenemen meebrengen meekomen komen mee traer llevar venir
"""
BRINGING = frozenset(_BRINGING_IN_LINES.split())
"""Who brings a guest asks whether the guest may come along."""
JOINED = re.compile(r",?\s+(?:and|und|en|y)\s+")
_HOW = frozenset(("how", "wie", "hoe"))
_DEGREES_IN_LINES = """
    big large long short old young high low tall deep wide broad thick heavy small
    groß lang lange alt hoch tief breit dick schwer
    groot lang oud hoog diep breed dik zwaar
"""
_DEGREES = frozenset(_DEGREES_IN_LINES.split())
"""Behind "how", they ask for a number, which sentences give without them: "Sheds may have nine square metres"."""
_OR = {"en": ("or",), "de": ("oder",), "nl": ("of",), "es": ("o", "u"), "fr": ("ou",)}


class Question:
    """What was asked.

    Args:
        text: in a form that stands alone.
        language: of the text, an ISO 639-1 code.
        there: texts of the passages.

    Attributes:
        vocabulary: of its language.
        words: all of its words.
        content: its content words but for those of degree behind "how" that the passages lack, and `asked` the same
            as a set.
        sought: its content words without those behind "how": how long, how much.
        names: those that begin with a capital or a digit.
        chooses: it offers a choice: "or".
        condition: the content words behind its "if", where there is a number among them.
        range: that it compares with: "Which cost more than 30 euros?"
        wants_fact: it has a question word, so that no yes or no answers it.
        sizes: its numbers with units, and ages.
        numbers: its numbers, each with the stem of the word behind it.
        days: its days of the week, by their content words.
        months: those that it names, from 1, and `month_words`, the content words that name them.
        double: it asks for two things: "… and …".
        holding: the content words, in its language, of verbs that say that something holds.
        brings: it has a verb for bringing somebody along.
        columns: its content words, and all that say that a number is a price if one of them does: "price" heads what
            "cost" asks for.
    """

    def __init__(self, text: str, language: str, there: Iterable[str] = ()) -> None:
        self.text = text
        self.vocabulary = Vocabulary(language)
        self.words = words_of(text)
        of_how = [word for how, word in pairwise(self.words) if how in _HOW]
        degrees = [] if _DEGREES.isdisjoint(of_how) else self._unsaid_degrees(of_how, there)
        self.content = [word for word in self.vocabulary.content(self.words) if word not in degrees]
        self.asked = frozenset(self.content)
        self.sought = [word for word in self.content if word not in self.vocabulary.content(of_how)]
        self.names = self.vocabulary.of(" ".join(_names(text)))
        self.chooses = any(word in self.words for word in _OR.get(language, ()))
        under = self.vocabulary.content(condition(self.words))
        self.condition = frozenset(under if numbers(under) else [])
        self.range = Range.read(text)
        self.wants_fact = not _ASKING.isdisjoint(self.words)
        self.sizes = Range.sizes(text)
        self.numbers = [(self._inside(number), unit) for number, unit in self._measured()]
        days = [(word, DAYS[word]) for word in self.words if word in DAYS]
        self.days = {stem: day for word, day in days for stem in self.vocabulary.content([word])}
        self.months = months_in(text)
        self.dates = dates_in(text)
        named = [word for word in self.words if MONTHS.get(word) in self.months]
        self.month_words = frozenset(self.vocabulary.content(named))
        self.date_words = self.month_words.union(str(date.day) for date in self.dates)
        self.double = JOINED.search(text) is not None
        self.holding = frozenset(self.vocabulary.content(_HOLDING))
        self.brings = not BRINGING.isdisjoint(self.words)
        pricing = self.vocabulary.pricing
        self.columns = [*self.content, *(() if pricing.isdisjoint(self.content) else pricing)]

    def _unsaid_degrees(self, of_how: Iterable[str], there: Iterable[str]) -> set[str]:
        """The words of degree behind "how" that the passages lack."""
        said = {word for text in there for word in words_of(text)}
        return set(self.vocabulary.content(_DEGREES.intersection(of_how))) - set(self.vocabulary.content(said))

    def _inside(self, number: str) -> str:
        """A number, or one just inside the range that begins or ends with it: "more than 20" is not 20."""
        if self.range is None or not self.range.left_out or float(number) not in (self.range.low, self.range.high):
            return number
        return str(float(number) + (NEXT if float(number) == self.range.low else -NEXT))

    def _measured(self) -> Iterable[Size]:
        for word, after in pairwise([*self.words, ""]):
            if _PLAIN_NUMBER.fullmatch(number := usual_form(word)):
                yield number, next(iter(self.vocabulary.content([after] if after else [])), "")


def _names(question: str) -> list[str]:
    """Words with a capital or a digit, but for the first; German writes all nouns so."""
    return [word for word in question.split()[1:] if word[:1].isupper() or any(map(str.isdigit, word))]
