"""Full stops that end no sentence: of abbreviations, and of ordinal numbers, as in *am 31. März*. Pure."""

from __future__ import annotations

import re

_ALWAYS = frozenset(["Dr", "Prof", "Mr", "Mrs", "Ms", "bijv", "bzw", "ca", "d.h", "e.g", "i.e", "vs", "z.B", "Z.B"])
_BEFORE_MORE = frozenset(
    ["abs", "approx", "art", "bzgl", "cf", "durchw", "evtl", "ext", "ggf", "incl", "inkl", "max", "min", "nr", "resp",
     "tel", "u.a", "vgl", "zzgl"]
)  # fmt: skip
"""Abbreviations where a number or a word in lower case follows."""
_MONTHS = frozenset(
    ["januar", "jänner", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober",
     "november", "dezember", "jan", "feb", "mär", "apr", "jun", "jul", "aug", "sep", "sept", "okt", "nov", "dez"]
)  # fmt: skip
_ORDINAL = re.compile(r"(?:^|[\s(–-])\d{1,2}\.$")
_GERMAN_ORDINAL = re.compile(
    r"\b(?:a[bm]|bis|das|de[mnrs]|die|ein(?:e[mnrs]?)?|i[mn]|jede[mnrs]?|oder|seit|und|vom|zu[mr])\s\d{1,2}\.$",
    re.IGNORECASE,
)
_DAY_OR_MONTH = re.compile(r"\d{1,2}\.(?:\s|\d|$)")
_DAY_AND_MONTH = re.compile(r"\b\d{1,2}\.\s\d{1,2}\.$")
_LAST = re.compile(r"[^\s(]+$")
_FIRST = re.compile(r"[^\W\d_]+")


def goes_on(before: str, after: str) -> bool:
    """Whether a sentence goes on behind a full stop.

    Args:
        before: the text up to the full stop, which is its last character.
        after: what stands behind it on the same line, without the space between.
    """
    if not before.endswith(".") or not after:
        return False
    if _ORDINAL.search(before):
        first = _FIRST.match(after)
        if _DAY_AND_MONTH.search(before) and after[0].isdecimal():  # a year
            return True
        named = first is not None and (first.group()[0].islower() or first.group().casefold() in _MONTHS)
        return named or bool(_DAY_OR_MONTH.match(after) or _GERMAN_ORDINAL.search(before))
    last = _LAST.search(before)
    word = last.group()[:-1] if last else ""
    if word in _ALWAYS or before.endswith("z. B.") or (len(word) == 1 and word.islower()):
        return True
    return word.casefold() in _BEFORE_MORE and (after[0].islower() or after[0].isdecimal())
