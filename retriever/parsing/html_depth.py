"""Rejects pages whose parsing would take too long, before they are parsed.

Parsers search all open elements at many tags, all attributes at each attribute and all options of a list at each
option, so their time grows with the square of each number. This module scans the text once and follows HTML's rules
roughly; knows no parser. Tags in attributes' values count.
"""

from __future__ import annotations

import re
from collections import defaultdict

MOST_DEPTH = 6000
"""Elements that may be open at a time, not counting those with an optional end tag."""
MOST_ATTRIBUTES = 5000
"""Of one tag."""
MOST_OPTIONS = 10_000
"""Of one list to select from."""

_TAG = re.compile(r"<(?:(!--)|(/?)([a-z][^\s/><]*)([^<>]*))")
_ATTRIBUTE = re.compile(r"""[^\s/="']+(?:\s*=\s*(?:"[^"]*"?|'[^']*'?|[^\s"']*))?""")
_VOID = frozenset([
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link", "meta", "param", "source",
    "track", "wbr",
])  # fmt: skip
_CLOSED_BY_OTHERS = frozenset([
    "p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "colgroup", "caption", "option", "a", "nobr",
])  # fmt: skip
_CELLS = frozenset(["tr", "td", "th", "tbody", "thead", "tfoot"])
"""Each of these tags closes everything open in the table's current cell."""
_WALLS = frozenset(["table", "object", "marquee", "applet", "template"])
"""No end tag inside one of these closes an element around it."""
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
    places: defaultdict[str, list[int]] = defaultdict(list)
    walls: list[int] = []
    options = place = 0

    def close(depth: int) -> None:
        while len(stack) > depth:
            places[closed := stack.pop()].pop()
            if closed in _WALLS:
                walls.pop()

    while tag := _TAG.search(text, place):
        place = tag.end()
        comment, closes, name, rest = tag.groups()
        if comment:
            place = text.find("-->", place - 2)
            if place < 0:
                return None
            continue
        if len(rest) > MOST_ATTRIBUTES and sum(1 for _ in _ATTRIBUTE.finditer(rest)) > MOST_ATTRIBUTES:
            return f"a tag in it has more than {MOST_ATTRIBUTES:,} attributes"
        foreign = any(places[one] for one in _FOREIGN) and not any(places[one] for one in _HTML_WITHIN)
        if foreign and name in _LEAVES_FOREIGN and not closes:
            close(min(places[one][0] for one in _FOREIGN if places[one]))
            foreign = False
        if name == "select":
            options = 0
        elif name == "option" and not closes:
            options += 1
            if options > MOST_OPTIONS:
                return f"a list in it has more than {MOST_OPTIONS:,} options"
        if name in _CELLS and places["table"]:
            close(places["table"][-1] + 1)
        if name in _VOID or name in _CLOSED_BY_OTHERS or (foreign and rest.endswith("/")):
            continue
        if closes:
            if places[name] and (name in _WALLS or not walls or places[name][-1] > walls[-1]):
                close(places[name][-1])
        elif name in _RAW and not foreign:
            place = text.find(f"</{name}", place)
            if place < 0:
                return None
        else:
            if name in _WALLS:
                walls.append(len(stack))
            places[name].append(len(stack))
            stack.append(name)
            if len(stack) > MOST_DEPTH:
                return f"its elements nest more than {MOST_DEPTH:,} deep"
    return None
