"""Puts another name in the place of the one that the question before asked about, without a model. Pure.

"And in Lisbon?" after "How many desks does the Hamburg office have?" asks how many desks the Lisbon office has. Small
models add the name instead ("… does the Hamburg office have in Lisbon?"). The name is replaced only where each question
has one and the follow-up says nothing else; other follow-ups are left to the model.

A name is a run of words with capitals or digits that does not begin the question. German writes all nouns so: there,
a name is the last of several such words ("Büro Graz"), or one right after a preposition. Knows words of English,
German and Dutch; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_service.prompting.rewriting.beginning import ARTICLES, ASKS, INSTEAD

MOST_WORDS = 7
"""Of a follow-up, behind its opening."""
_PLACE_IN_LINE = "in im at of on bei beim von vom am an van bij op"
_PLACE = frozenset(_PLACE_IN_LINE.split())
"""Prepositions that may take each other's place: at the Hamburg office, in Lisbon."""
_OTHER_IN_LINE = "for to from by with without than für nach aus mit ohne zu zum zur voor naar uit met zonder"
_OTHER = frozenset(_OTHER_IN_LINE.split())
"""Prepositions that no other one may take the place of."""
_PREPOSITIONS = _PLACE | _OTHER
_BARE = frozenset(("in", "at"))
"""Those that say which one it is, as a name without one does: "in Lisbon" after "the Hamburg office"."""
_ONES_IN_LINE = "one ones that those der die das den dem deren diejenige degene dat"
_ONES = frozenset(_ONES_IN_LINE.split())
"""Words for what the question before asked about."""
_NO_NAMES_IN_LINES = """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays english german dutch
    januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag i
    christmas easter weihnachten ostern pfingsten silvester frühling sommer herbst winter wochenende kerstmis pasen
    pinksteren
    """
_NO_NAMES = frozenset(_NO_NAMES_IN_LINES.split())
WORD = re.compile(r"[^\W_](?:[\w&.'’/-]*[\w'’])?")


class Run(NamedTuple):
    """Words of a name: the first and the one behind the last."""

    start: int
    end: int


def replaced(question: str, before: str, language: str) -> str | None:
    """The question before with the follow-up's name in place of its own; None if more than a name differs.

    Args:
        before: as it was understood.
        language: of `before`, an ISO 639-1 code.
    """
    opening = INSTEAD.match(question)
    own = WORD.findall(question[opening.end() if opening else 0 :])
    words = list(WORD.finditer(before))
    asked = [match.group() for match in words]
    german = language == "de"
    found, old_names = _runs(own, first=bool(opening)), names(asked, language)
    if not 0 < len(own) <= MOST_WORDS or len(found) != 1 or len(old_names) != 1:
        return None
    new, named = found[0], old_names[0]
    known = {word.casefold() for word in asked} | _PREPOSITIONS | ARTICLES | _ONES
    others = {word.casefold() for word in (*own[: new.start], *own[new.end :])}
    if not others <= known - ASKS:
        return None
    old = _number(own, new, asked, named)
    if old is None:
        if _counted(own, new) != _counted(asked, named):
            return None
        old = _german(own, new, asked, named) if german else named
        if old is None or not _same_kind(own[new.start : new.end], asked[old.start : old.end]):
            return None
    if not _fits(own, new, asked, named, german):
        return None
    first, led = old.start, new.start
    if german and old == named and new.start:
        first, led = _led(asked, old.start), _led(own, new.start)  # with preposition and article: im Park, in der Burg
        if _preposition(own[led : new.start]) and not _preposition(asked[first : old.start]):
            return None
        if led == new.start:
            first = old.start
    if led == new.start and own[led].casefold() in ARTICLES and asked[first - 1].casefold() in ARTICLES:
        first -= 1  # "on De Zwaan" instead of "on the De Zwaan"
    name = " ".join(own[led : new.end])
    return before[: words[first].start()] + name + before[words[old.end - 1].end() :]


def names(words: Sequence[str], language: str) -> list[Run]:
    """The names in the words of a question."""
    found = _runs(words)
    if language != "de":
        return found
    return [run for run in found if run.end - run.start > 1 or words[run.start - 1].casefold() in _PREPOSITIONS]


def _runs(words: Sequence[str], first: bool = False) -> list[Run]:
    """The names. `first`: whether the first word may be one, since it does not begin a sentence."""
    found: list[Run] = []
    for n, word in enumerate(words):
        if not (_is_name(word) or _begins_name(words[n : n + 2])) or (n == 0 and not first):
            continue
        if found and found[-1].end == n:
            found[-1] = found[-1]._replace(end=n + 1)
        else:
            found.append(Run(n, n + 1))
    return found


def _is_name(word: str) -> bool:
    if word.casefold() in _NO_NAMES | _PREPOSITIONS | ARTICLES | ASKS:
        return False
    return any(character.isdigit() for character in word) or (word[0].isupper() and not word.isupper())


def _begins_name(words: Sequence[str]) -> bool:
    """Whether the first of two words is an article of the name: De Zwaan, The Hague."""
    return len(words) == 2 and words[0][:1].isupper() and words[0].casefold() in ARTICLES and _is_name(words[1])


def _number(own: Sequence[str], new: Run, asked: Sequence[str], old: Run) -> Run | None:
    """The number at a name's end, which another one replaces: "and the 350?" after the Falcon 500. None for others."""
    last = old._replace(start=old.end - 1)
    numbers = new.end - new.start == 1 and own[new.start].isdigit() and asked[last.start].isdigit()
    return last if numbers and old.end - old.start > 1 else None


def _counted(words: Sequence[str], run: Run) -> bool:
    """Whether a number counts the words behind it: 5 Tage."""
    return run.end - run.start > 1 and words[run.start].isdigit()


def _same_kind(new: Sequence[str], old: Sequence[str]) -> bool:
    """Names with and without digits are of different kinds; so are two numbers and words with digits."""
    digits = [any(character.isdigit() for word in name for character in word) for name in (new, old)]
    plain = [all(word.replace(".", "").isdigit() for word in name) for name in (new, old)]
    return digits[0] == digits[1] and not any(plain)


def _fits(own: Sequence[str], new: Run, asked: Sequence[str], old: Run, german: bool) -> bool:
    """Whether the names stand for the same: "Can Anna approve trips?" is not about "in Lisbon"."""
    at = _preposition(own[: new.start])
    place = _preposition(asked[max(old.start - 3, 0) : old.start])
    if at in _OTHER:
        return at == place
    attribute = old.start > 0 and asked[old.start - 1].casefold() in ARTICLES and old.end < len(asked)
    bare = attribute or (german and old.end - old.start > 1)
    return not at or place in _PLACE or (at in _BARE and bare)


def _preposition(words: Sequence[str]) -> str:
    """The last one, in lower case; "" for none."""
    return next((word.casefold() for word in reversed(words) if word.casefold() in _PREPOSITIONS), "")


def _led(words: Sequence[str], end: int) -> int:
    """Where the prepositions and articles right before a word begin."""
    while end and words[end - 1].casefold() in _PREPOSITIONS | ARTICLES:
        end -= 1
    return end


def _german(own: Sequence[str], new: Run, asked: Sequence[str], old: Run) -> Run | None:
    """What of a run of nouns is replaced: all of it by as many or behind the same words, its last word by one."""
    count = new.end - new.start
    led, place = own[_led(own, new.start) : new.start], asked[_led(asked, old.start) : old.start]
    if led and [word.casefold() for word in led] == [word.casefold() for word in place]:
        return old
    if count == old.end - old.start and (count > 1 or _preposition(led)):
        return old
    return old._replace(start=old.end - 1) if count == 1 and _preposition(own[: new.start]) in _BARE else None
