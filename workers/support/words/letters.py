"""Letters that name one of several things: oven B, certificate A, Room 1B. Lists of stop words have single letters.

Knows texts; knows no question.
"""

from __future__ import annotations

import regex

_BOLD = {letter: chr(0x1D400 + n) for n, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
"""A letter that is a name -> the same in bold, which no list of stop words has."""
_ALONE = r"(?<![\w'’.°])(?<!\b\p{L}\.[ ])(?<!\d[ ])"
"""Not in an abbreviation (z. B., e. V.), an initial behind another one, or a unit behind a number."""
_ENDS = r"(?![\w'’])(?!-\w)(?!\.\s?\p{L}\.)(?!\.\s?\d)"
"""Nor in T-shirt, S. 5 or a row of initials."""
_BEGINNING = "The This That These There Then It A An If For In On At And But Or No All You We They Das Der Die Es Ein"
_BEGINNING += " Eine Sie Wir Im Für Wer Wenn Und De Het Een Er Je We Wie Als Voor En Maar"
_INITIAL = rf"(?!\.\s(?!(?:{_BEGINNING.replace(' ', '|')})\b)\p{{Lu}})"
"""Nor before a surname; words that sentences begin with are none."""
_IN_TEXT = r"(?<=\p{Ll}[ ])"
_TITLE = r"(?!(?<=\b\p{Lu}\p{Ll}*[ ].)[ ]\p{Lu})"
"""Nor among words that all have capitals: What Is A Permit For?"""
_CAPITAL = regex.compile(rf"{_ALONE}(?:(?<=\b\p{{Ll}}+[ ])[B-DF-HJ-NP-TV-XZ]|[B-DF-HJ-NP-TV-XZ]{_INITIAL}){_ENDS}")
_VOWEL = regex.compile(
    rf"{_ALONE}(?:{_IN_TEXT}[AEOY]{_TITLE}|(?<=\|[ ]?)A(?=[ ]\p{{Lu}})|(?<!\b\p{{Lu}}+\s)[AEOY](?=[ ]*(?:$|[|\n)])))"
    rf"{_INITIAL}{_ENDS}"
)
"""In some languages a word, mostly at the start of a sentence: in the middle of one, or alone in a cell, A is none."""
_SMALL = regex.compile(rf"{_IN_TEXT}{_ALONE}(?:[bcdf]{_ENDS}|(?<!\b(?:en|il|on|qui)[ ])a(?=[ ]*(?:[?!,;)]|$)))")
"""As people type them."""
_NUMBERED = regex.compile(r"(?<=\d)[BDE](?!\w)")
_RANGE = regex.compile(r"(?<![\w'’.-])([A-Z])[ ]?(?:-|–|to|through|bis|tot|t/m)[ ]?([A-Z])(?![\w'’])")
MOST = 12
"""Letters of a range: halls A to D are halls A, B, C and D; from A to Z is everything."""


def with_names(text: str) -> str:
    """A text with such letters as signs of their own, which `split` gives as words and no stop word is."""
    text = _RANGE.sub(_listed, text)
    for pattern in (_CAPITAL, _VOWEL, _SMALL, _NUMBERED):
        text = pattern.sub(lambda letter: _BOLD[letter[0].upper()], text)
    return text


def _listed(span: regex.Match[str]) -> str:
    letters = [chr(letter) for letter in range(ord(span[1]), ord(span[2]) + 1)]
    return " ".join(_BOLD[letter] for letter in letters) if 1 < len(letters) <= MOST else span[0]
