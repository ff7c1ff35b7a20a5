"""How deep a page's elements nest and how many attributes they have, told before it is parsed.

Parsers look through all open elements at many a tag, and through all attributes at each: time grows with the square of
either. Goes through the text once and follows HTML's rules roughly; knows no parser. Tags in attributes' values count.
"""

from __future__ import annotations

import re
from collections import Counter

MOST_DEPTH = 6000
"""Elements that may be open at a time, those aside whose end tag may be left out."""
MOST_ATTRIBUTES = 5000
"""Words that a tag may hold."""

_TAG = re.compile(r"<(?:(!--)|(/?)([a-z][^\s/><]*)([^<>]*))")
_VOID = frozenset([
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link", "meta", "param", "source",
    "track", "wbr",
])  # fmt: skip
_CLOSED_BY_OTHERS = frozenset([
    "p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "colgroup", "caption", "option", "optgroup",
])  # fmt: skip
_RAW = frozenset(["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"])
_FOREIGN = frozenset(["svg", "math"])
_HTML_WITHIN = frozenset(["foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"])
_LEAVES_FOREIGN = frozenset([
    "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "font", "h1",
    "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre",
    "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var",
])  # fmt: skip


def too_complex(page: str) -> str | None:
    """Why a page should not be parsed; None for one that may be."""
    text = page.lower()
    stack: list[str] = []
    count: Counter[str] = Counter()
    place = 0
    while found := _TAG.search(text, place):
        place = found.end()
        comment, closes, name, rest = found.groups()
        if comment:
            place = text.find("-->", place - 2)
            if place < 0:
                return None
            continue
        if len(rest) > MOST_ATTRIBUTES and len(re.split(r"[\s/]+", rest)) > MOST_ATTRIBUTES:
            return f"a tag in it has more than {MOST_ATTRIBUTES:,} attributes"
        foreign = any(count[one] for one in _FOREIGN) and not any(count[one] for one in _HTML_WITHIN)
        if foreign and name in _LEAVES_FOREIGN and not closes:
            while count["svg"] or count["math"]:
                count[stack.pop()] -= 1
            foreign = False
        if name in _VOID or name in _CLOSED_BY_OTHERS or (foreign and rest.endswith("/")):
            continue
        if closes:
            while count[name]:
                count[gone := stack.pop()] -= 1
                if gone == name:
                    break
        elif name in _RAW and not foreign:
            place = text.find(f"</{name}", place)
            if place < 0:
                return None
        else:
            stack.append(name)
            count[name] += 1
            if len(stack) > MOST_DEPTH:
                return f"its elements nest more than {MOST_DEPTH:,} deep"
    return None
