"""Letters that name one of several things: oven B, certificate A, Room 1B. Lists of stop words have single letters.

Knows texts; knows no question.
"""

from __future__ import annotations

import regex

_BOLD = {letter: chr(0x1D400 + n) for n, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
"""A letter that is a name -> the same in bold, which no list of stop words has."""
_ALONE = r"(?<![\w'’.])(?<!\b\p{L}\.\s)(?<!\d\s)"
"""Not in an abbreviation (z. B., e. V.), an initial behind another one, or a unit behind a number."""
_ENDS = r"(?![\w'’])(?!-\w)(?!\.\s?\p{L}\.)(?!\.\s?\d)"
"""Nor in T-shirt, S. 5 or a row of initials."""
_IN_TEXT = r"(?<=\p{Ll}\s)"
_INITIAL = r"(?!\.\s\p{Lu})"
_CAPITAL = regex.compile(rf"{_ALONE}(?:(?<=\b\p{{Ll}}+\s)[B-DF-HJ-NP-TV-XZ]|[B-DF-HJ-NP-TV-XZ]{_INITIAL}){_ENDS}")
_VOWEL = regex.compile(
    rf"{_ALONE}(?:{_IN_TEXT}[AEOY]|(?<!\b\p{{Lu}}+\s)(?:A(?=\s\p{{Lu}})|[AEOY](?=\s*(?:$|[|\n)])))){_INITIAL}{_ENDS}"
)
"""In some languages a word, mostly at the start of a sentence: in the middle of one, or before a capital, A is none."""
_SMALL = regex.compile(rf"{_IN_TEXT}{_ALONE}(?:[bcdf]{_ENDS}(?!\.)|a(?=\s*(?:[?!,;)]|$)))")
"""As people type them."""
_NUMBERED = regex.compile(r"(?<=\d)[ABDE](?!\w)")


def with_names(text: str) -> str:
    """A text with such letters as signs of their own, which `split` gives as words and no stop word is."""
    for pattern in (_CAPITAL, _VOWEL, _SMALL, _NUMBERED):
        text = pattern.sub(lambda letter: _BOLD[letter[0].upper()], text)
    return text
