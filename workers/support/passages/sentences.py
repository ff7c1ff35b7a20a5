"""The sentences of a text and their clauses. Pure; knows punctuation and a few words."""

from __future__ import annotations

import re

from workers.support.passages.sentence_ends import goes_on
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import STATES

LONG_LINE = 40
"""Characters from which on a line may have been broken for its length."""
_LINE_END = re.compile(r"\n")
_OWN_LINE = re.compile(r"\s*(?:#|>|\|)|[^|]*\|[^|]*\|")
"""Headings, quotes and rows of tables."""
_WORD_OF_PROSE = re.compile(r"(?!\d+[.)]\s)[^\W_]|[\"'(“„«‘]\w")
_SENTENCE = re.compile(r"\S.*?(?:[.!?…]+(?=\s|$)|[。！？]+|(?=\n)|$)", re.DOTALL)
_CLAUSE = re.compile(
    r"[,;:](?!\d)\s*|(?<!\d)\s*[–—]\s*|[–—](?!\d)\s*|[，；：、]\s*|\s+(?=but |maar |aber |pero |mais )"
)
_GOES_ON_IN_LINES = """
    is are was were may must can has have will does
    ist sind war darf dürfen muss müssen kann können wird werden hat haben gilt gelten
    zijn mag mogen moet moeten kan kunnen wordt worden heeft hebben geldt gelden
    está están puede pueden debe deben
"""
GOES_ON = frozenset(_GOES_ON_IN_LINES.split())
"""Verbs that begin no clause: behind a comma they go on with what stands before an insertion."""
_ADDS_IN_LINES = """
    including also even at in on of for from with by
    auch sogar einschließlich inklusive an am im auf bei für von mit
    ook zelfs inclusief op bij voor van met
    incluso también en con para
"""
_ADDS = frozenset(_ADDS_IN_LINES.casefold().split())
"""Words that a clause without a verb may begin with."""
_EXCEPTING = frozenset(["except", "außer", "ausser", "ausgenommen", "behalve", "uitgezonderd", "excepto", "salvo"])
"""What a clause begins with that makes an exception: none of a list."""
LISTED = 2
"""Most words of a thing in a list."""
_YES = frozenset(("yes", "ja", "jawohl", "sí", "si", "oui", "是", "是的", "可以"))
_MARKER = re.compile(r"^[ \t]*(\d{1,3}[.)])(?:[ \t]+|$)", re.MULTILINE)
_AND = re.compile(r"\s+(?=(?:and|und|en|y) )")


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences and lines of a text, without white space at their ends.

    A line of prose that was broken for its length goes on in the next one. The full stop of an abbreviation or of an
    ordinal number ends no sentence.
    """
    joined = _LINE_END.sub(lambda match: " " if _goes_on(match) else "\n", text)
    matches = _SENTENCE.finditer(joined)
    found: list[tuple[int, int]] = []
    for match in matches:
        start, end = match.start(), match.start() + len(match.group().rstrip())
        if start == end:
            continue
        if (
            found
            and "\n" not in joined[found[-1][1] : start]
            and goes_on(joined[max(0, found[-1][1] - 40) : found[-1][1]], match.group())
        ):
            start = found.pop()[0]
        found.append((start, end))
    return found


def claims(text: str) -> list[tuple[int, int]]:
    """As `sentences`, of an answer: without the markers of a list, such as "2.", which claim nothing. One by itself is
    an answer: "5."."""
    found = [*_MARKER.finditer(text)]
    markers = {match.start(1) for match in found if len(found) > 1 or match.end() < len(text.rstrip())}
    return [span for span in sentences(text) if not (span[0] in markers and _is_number(text[slice(*span)]))]


def _is_number(sentence: str) -> bool:
    return sentence.rstrip(".)").isdecimal()


def _goes_on(line_end: re.Match[str]) -> bool:
    """Whether the line before a line end is prose of some length, and the next one begins with a word of it."""
    text, at = line_end.string, line_end.start()
    line = text[text.rfind("\n", 0, at) + 1 : at]
    long = len(line) >= LONG_LINE and line.count(" ") >= LONG_LINE // 10
    return long and not _OWN_LINE.match(line) and bool(_WORD_OF_PROSE.match(text, at + 1))


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence. "And" parts two only where each says something of its own: open …, and closed …

    What stands between commas parts none: "The water, also of the shower, is not for drinking."
    """
    found: list[str] = []
    for clause in _CLAUSE.split(sentence):
        before = words_of(found[-1]) if found else []
        words = words_of(clause)
        listed = _is_listed(before) and _EXCEPTING.isdisjoint(words[:1])
        if not _YES.issuperset(before) and (_is_rest(words) or listed):
            found[-1] += f", {clause}"
            continue
        first, *others = _AND.split(clause)
        found.append(first)
        for other in others:
            if STATES.keys().isdisjoint(words_of(other)) or STATES.keys().isdisjoint(words_of(found[-1])):
                found[-1] += f" {other}"
            else:
                found.append(other)
    return found


def _is_rest(words: list[str]) -> bool:
    """Whether a part behind a comma goes on with the clause before, or adds to it without a statement of its own."""
    if not words or words[0] in GOES_ON:
        return True
    return words[0] in _ADDS and not negations(words) and STATES.keys().isdisjoint(words)


def _is_listed(words: list[str]) -> bool:
    """Whether a part is the first of a list: "Pianos, drums and harps are not lent"."""
    plain = STATES.keys().isdisjoint(words) and not negations(words)
    return len(words) <= LISTED and plain
