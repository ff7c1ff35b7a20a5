"""Statements that rule a yes out: "There is no discount on cabins" beside "Yes, members get 5 percent off the pitch".

Of one question; a statement says no to what was asked, or says for whom alone it holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from workers.support.passages.rows import UNITLESS
from workers.support.question import BRINGING, Question
from workers.support.statement import Statement
from workers.support.words.numbers import usual_form
from workers.support.words.polarity import ONLY, negations, words_of
from workers.support.words.states import implied, turned
from workers.support.words.word_forms import near

_HOURS = frozenset(("uur", "uhr", "o", "am", "pm", "h"))
"""Units of hours; o'clock begins with an o."""
_HOUR = re.compile(r"\b(\d{1,2}(?:[.:]\d\d)?)\s*(?:uur|uhr|o['’]clock|am|pm|h)\b")
_TIME_OF_DAY = re.compile(
    r"['’]?\bs (?:avonds|middags|morgens|ochtends|nachts)\b|\b(?:abends|morgens|mittags|nachts)\b"
)
LEAST = 3
"""Fewest words of a question for something, somewhere and by some means."""
OTHERWISE = frozenset(
    ("otherwise", "else", "later", "afterwards", "after", "danach", "sonst", "später", "daarna", "anders", "después")
)
MOSTLY = 0.6
"""Share of its words that were asked, from which on a clause says what was asked."""

_JOINED = re.compile(
    r"([\w-]+)(?:,|,?\s+(?:and|or|und|oder|en|of|y|o))\s+(?:(?:in|im|on|am|at|the|de|het|der|die|das|op)\s+)?([\w-]+)"
)
_ALL_IN_LINES = """
    all every each any both everywhere always alle elk elke ieder iedere beide allebei overal altijd todos todas cada
"""
_ALL = frozenset(_ALL_IN_LINES.split())
_HALVES = re.compile(r";|,?\s(?:but|while|whereas|aber|während|maar|terwijl|pero|mientras)\s")
_MEANWHILE = re.compile(
    r"\b(?:(?:in|during|throughout|for) (?:that|this|the same) (?:time|period)|meanwhile|in the meantime"
    r"|(?:in|während) dieser zeit|währenddessen|(?:in|gedurende|tijdens) (?:die|deze) (?:tijd|periode)"
    r"|ondertussen|intussen|durante ese (?:tiempo|período)|mientras tanto)\b"
)
_RESTRICTING_IN_LINES = """
    only must least minimum minimal nur muss müssen mindestens mindestalter erst ausschließlich
    alleen slechts moet moeten minstens minimumleeftijd pas solo debe deben mínimo mínima
"""
_RESTRICTING = frozenset(_RESTRICTING_IN_LINES.casefold().split())


def denies_what_was_asked(
    text: str, question: Question, sizes: Mapping[str, bool] | None = None, least: int = 2
) -> bool:
    """Whether a sentence only says that something that was asked for is not so: "Tuesday is our closing day."

    Things that were not asked for do not matter if "and" joins them to one that was: "not in July and August".

    Args:
        sizes: what the sentence says of the sizes that were asked for, as `Statement.sizes`.
        least: so many things of the question it must name.
    """
    words = words_of(text)
    denies = (negations(words) % 2 != negations(question.words) % 2) != turned(words, question.words)
    if not denies:
        return False
    asked, of = set(question.content), question.vocabulary.of
    content = set(question.vocabulary.content(words))
    ranged = (
        {word for word in content if word[0].isdigit() or word in UNITLESS} if any((sizes or {}).values()) else set()
    )
    for first, second in _JOINED.findall(text.casefold()):
        for one, other in ((first, second), (second, first)):
            content -= set(of(other)) - asked if asked.intersection(of(one)) else set()
    content -= (set(question.vocabulary.content(implied(question.words))).union(question.holding) - asked) | ranged
    comes_along = question.brings and not BRINGING.isdisjoint(words)
    content -= set(question.vocabulary.content(sorted(BRINGING))) - asked if comes_along else set()
    return bool(content) and len(content) + bool(ranged) + comes_along >= least and asked.issuperset(content)


def takes_back(text: str, question: Question) -> bool:
    """Whether a sentence behind a yes denies what was asked, though it names one thing alone: "Rabbits are not
    allowed." Not one that says what holds otherwise."""
    words = words_of(text)
    return OTHERWISE.isdisjoint(words) and denies_what_was_asked(_without_hours(text, question), question, least=1)


def _without_hours(text: str, question: Question) -> str:
    """A sentence without an hour that is not after the one that was asked for: "It closes at 7 pm", of 8 pm."""
    asked = [size.range.low for size in question.sizes if size.unit in _HOURS]
    hours = [float(usual_form(hour)) for hour in _HOUR.findall(text.casefold())]
    if not asked or not hours or max(hours) > min(asked):
        return text
    return _TIME_OF_DAY.sub(" ", _HOUR.sub(" ", text.casefold()))


def lacks_only(statement: Statement, said: Collection[str], question: Question) -> str | None:
    """The one word of the question, which a yes repeats, that a sentence lacks that says of all others that they are so
    with something else only: "In the shop one pays by card only", of cash in the shop."""
    words = words_of(statement.text)
    at = next((n for n, word in enumerate(words) if word in ONLY), None)
    lacking = [word for word in question.asked if not near(word, statement.words)]
    if at is None or statement.row is not None or len(lacking) != 1 or len(question.asked) < LEAST:
        return None
    behind = question.vocabulary.content(words[at + 1 :])
    else_there = [word for word in behind if word not in question.asked]
    fits = lacking[0] in said and bool(else_there) and not any(word[0].isdigit() for word in behind)
    return lacking[0] if fits else None


def goes_on_meanwhile(statement: Statement, said: Sequence[str], question: Question) -> bool:
    """Whether it says of nothing but what was asked that it is otherwise in the time that the sentence before it names:
    "The office stays open in that time" behind "In May the library is closed", of a closed office.

    Args:
        said: all words of the claim.
    """
    text, meanwhile = _MEANWHILE.subn(" ", statement.text.casefold())
    words = words_of(text)
    if not (meanwhile and turned(said, words)):
        return False
    known = {*question.content, *question.holding, *question.vocabulary.content(implied(words))}
    content = question.vocabulary.content(words)
    return known.issuperset(content) and not question.asked.isdisjoint(content)


def is_for_the_rest_only(statement: Statement, question: Question) -> bool:
    """Whether half of a sentence says of a word that was asked that it has something only, and the other half has
    another such word: "We take cash at the desk; the shop takes cards only", of cash in the shop."""
    halves = _HALVES.split(statement.text)
    contents = [frozenset(question.vocabulary.of(half)) & question.asked for half in halves]
    for number, half in enumerate(halves):
        rest = frozenset().union(*(one for n, one in enumerate(contents) if n != number))
        if not ONLY.isdisjoint(words_of(half)) and contents[number] - rest and rest - contents[number]:
            return True
    return False


def denies_it_all(statement: Statement, said: Collection[str], question: Question) -> bool:
    """Whether it says no to all but one word of a question for a yes or no, and an answer without either has little of
    that: "There is no discount on boats" beside "Members pay 2 euros less for the sauna".

    Args:
        said: the answer's content words.
    """
    if question.wants_fact or statement.row is not None or len(statement.words.difference(said)) < 2:
        return False
    lacking = [word for word in question.asked if not near(word, statement.words | statement.around)]
    here = question.asked & statement.words
    return len(lacking) < 2 < len(here) and denies_what_was_asked(statement.text, question, statement.sizes)


def rules_out(statement: Statement, said: Collection[str], yes: bool, question: Question) -> bool:
    """Whether a statement does so, about words half of which, or a name, a yes leaves out.

    An answer without a yes must leave some out, and the statement must have all that was asked: "Visitors may not bring
    dogs" says how many a visitor may bring.

    Args:
        said: the answer's content words.
    """
    asked = question.content
    if not all(near(word, statement.around | statement.words) for word in asked if not _is_size(word, statement)):
        return False
    if statement.row is not None:
        return yes and statement.row.says_no(asked, question.words, any(statement.sizes.values()))
    if yes and _is_for_other_sizes(statement, question):
        return True
    left_out = statement.words.difference(said)
    if yes:
        enough = 2 * len(left_out) >= len(statement.words) or not statement.words.isdisjoint(question.names)
    else:
        enough = bool(left_out) and statement.words.issuperset(asked)
    return enough and denies_what_was_asked(statement.text, question, statement.sizes)


def is_said_of_another(statement: Statement, statements: Sequence[Statement], question: Question) -> bool:
    """Whether a sentence with nearly all that was asked is about something else than a name of the question, of which
    another sentence of the passage says something of what was asked: "A guide is included in the price of the tower",
    of the Museum, beside "For the Museum a guide costs 25 euros". "The Museum shop opens at 9" says nothing of it."""
    if question.vocabulary.language == "de" or statement.row is not None:  # German has capitals for all things
        return False
    asked, here = question.asked, statement.words | statement.above
    times = question.month_words.union(question.days)
    names = (name for name in question.names if not name[0].isdigit() and name not in times)
    missing = {name for name in names if not near(name, here)}
    known = asked - missing
    if not missing or len(known) < 2 or not all(near(word, here) for word in known):
        return False
    if not _ALL.isdisjoint(words_of(statement.text)) or all(near(word, asked) for word in statement.words):
        return False
    apart = known - _beside(missing, question)
    return any(
        one is not statement
        and one.row is None
        and one.passage == statement.passage
        and all(near(name, one.words) for name in missing)
        and any(near(word, one.words) for word in apart)
        for one in statements
    )


def _beside(names: Collection[str], question: Question) -> set[str]:
    """The content words next to names in a question: what these name, such as a Museum shop."""
    contents = [set(question.vocabulary.content([word])) for word in question.words]
    pairs = [*pairwise(contents), *pairwise(reversed(contents))]
    return set().union(*(other for content, other in pairs if content.intersection(names)))


def is_plainly_denied(statements: Sequence[Statement], said: Collection[str], question: Question) -> bool:
    """Whether a sentence says no to what was asked in words that a yes has, all of them, and none says so without a no:
    "There is no annual fee" beside "… after the annual accounts are approved".

    Args:
        said: the answer's content words.
    """
    pricing = question.vocabulary.pricing
    for one in statements:
        if one.row is not None or not one.words or not one.words.issubset(said):
            continue
        there = one.words | one.above  # its paragraph may have named others
        known = question.asked - pricing if one.words & pricing else question.asked
        if not all(near(word, there) for word in known if not _is_size(word, one)):
            continue
        others = (other for other in statements if other is not one and one.words <= other.words)
        alone = all(negations(words_of(other.text)) for other in others)
        if alone and denies_what_was_asked(one.text, question, one.sizes):
            return True
    return False


def _is_for_other_sizes(statement: Statement, question: Question) -> bool:
    """Whether it is only for other ages or sizes than were asked for: "only to people who are 16 or older"."""
    if not statement.sizes or any(statement.sizes.values()) or _RESTRICTING.isdisjoint(words_of(statement.text)):
        return False
    there = statement.words | statement.above
    return all(near(word, there) for word in question.content if not _is_size(word, statement))


def _is_size(word: str, statement: Statement) -> bool:
    return bool(statement.sizes) and (word in statement.sizes or word in UNITLESS)


def restricts(statement: Statement, said: Collection[str], question: Question) -> bool:
    """Whether it says that what holds for a size that was asked for does so with something only that a yes leaves out:
    "Children under 9 may only enter with an adult"."""
    if not any(statement.sizes.values()):
        return False
    words = words_of(statement.text)
    at = next((n for n, word in enumerate(words) if word in ONLY), None)
    if at is None:
        return False
    behind = set(question.vocabulary.content(words[at + 1 :]))
    if any(word[0].isdigit() for word in behind):
        return False  # only for such a size
    return bool(behind.difference(question.content)) and behind.difference(question.content).isdisjoint(said)
