"""Formulas of Word (OMML) → text in LaTeX's form: `\\frac{a}{b}`, `x^{2}`, `\\sqrt{y}`.

Letters and signs stay the characters that they are. Knows lxml elements; knows no package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lxml import etree

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MAX_DEPTH = 100
APPLY = "\u2061"
"""The invisible sign between a function and its argument."""

_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "bar", "\u20d7": "vec", "\u0307": "dot"}
_SIGNS = {"∑": "\\sum", "∏": "\\prod", "∫": "\\int", "": "\\int"}


def with_formulas_as_text(root: Any) -> bool:
    """Replaces each formula below `root`, a part of a Word file, by a run of text; False if there is none."""
    formulas = list(root.iter(f"{{{MATH}}}oMath"))
    written = set()
    for formula in formulas:
        run = etree.Element(f"{{{WORD}}}r")
        text = etree.SubElement(run, f"{{{WORD}}}t")
        linear = " ".join(_linear(formula).replace(APPLY, " ").split())
        text.text = f" ${linear}$" if formula.getprevious() in written else f"${linear}$"
        text.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
        parent = formula.getparent()
        if parent is None:
            continue
        written.add(run)
        run.tail = formula.tail
        parent.replace(formula, run)
    for block in list(root.iter(f"{{{MATH}}}oMathPara")):
        parent = block.getparent()
        if parent is None:
            continue
        place = parent.index(block)
        runs = [one for one in block if one.tag == f"{{{WORD}}}r"]
        if parent.tag != f"{{{WORD}}}p":
            paragraph = etree.Element(f"{{{WORD}}}p")
            paragraph.extend(runs)
            runs = [paragraph]
        parent.remove(block)
        for number, one in enumerate(runs):
            parent.insert(place + number, one)
    return bool(formulas)


def _linear(node: Any, depth: int = 0) -> str:
    if depth > MAX_DEPTH or not isinstance(node.tag, str):
        return ""
    name = etree.QName(node).localname
    if name in ("t", "delText"):
        return node.text or ""
    if name.endswith("Pr"):
        return ""

    def part(tag: str) -> str:
        found = node.find(f"{{{MATH}}}{tag}")
        return "" if found is None else _linear(found, depth + 1).strip()

    def parts(tag: str) -> list[str]:
        return [_linear(one, depth + 1).strip() for one in node.iterfind(f"{{{MATH}}}{tag}")]

    if written := _FORMS.get(name):
        return written(node, part, parts)
    return "".join(_linear(child, depth + 1) for child in node)


def _property(node: Any, name: str, default: str) -> str:
    found = node.find(f"{{{MATH}}}{etree.QName(node).localname}Pr/{{{MATH}}}{name}")
    return default if found is None else str(found.get(f"{{{MATH}}}val", ""))


_Part = Callable[[str], str]
_Parts = Callable[[str], list[str]]


def _fraction(node: Any, part: _Part, parts: _Parts) -> str:
    return f"\\frac{{{part('num')}}}{{{part('den')}}}"


def _root(node: Any, part: _Part, parts: _Parts) -> str:
    degree = part("deg")
    return f"\\sqrt{f'[{degree}]' if degree else ''}{{{part('e')}}}"


def _scripts(node: Any, part: _Part, parts: _Parts) -> str:
    return part("e") + _limits(part)


def _before(node: Any, part: _Part, parts: _Parts) -> str:
    return "{}" + _limits(part) + part("e")


def _limits(part: _Part) -> str:
    low, high = part("sub"), part("sup")
    return (f"_{{{low}}}" if low else "") + (f"^{{{high}}}" if high else "")


def _sum(node: Any, part: _Part, parts: _Parts) -> str:
    sign = _property(node, "chr", "∫")
    return f"{_SIGNS.get(sign, sign)}{_limits(part)} {part('e')}"


def _brackets(node: Any, part: _Part, parts: _Parts) -> str:
    between = _property(node, "sepChr", "|")
    return _property(node, "begChr", "(") + between.join(parts("e")) + _property(node, "endChr", ")")


def _function(node: Any, part: _Part, parts: _Parts) -> str:
    return f"{part('fName')} {part('e')}"


def _low(node: Any, part: _Part, parts: _Parts) -> str:
    return f"{part('e')}_{{{part('lim')}}}"


def _high(node: Any, part: _Part, parts: _Parts) -> str:
    return f"{part('e')}^{{{part('lim')}}}"


def _accent(node: Any, part: _Part, parts: _Parts) -> str:
    return f"\\{_ACCENTS.get(_property(node, 'chr', chr(0x302)), 'hat')}{{{part('e')}}}"


def _bar(node: Any, part: _Part, parts: _Parts) -> str:
    return f"\\{'overline' if _property(node, 'pos', 'bot') == 'top' else 'underline'}{{{part('e')}}}"


def _rows(node: Any, part: _Part, parts: _Parts) -> str:
    return " \\\\ ".join(parts("e"))


def _matrix(node: Any, part: _Part, parts: _Parts) -> str:
    rows = [[_linear(cell).strip() for cell in row] for row in node.iterfind(f"{{{MATH}}}mr")]
    return " \\\\ ".join(" & ".join(row) for row in rows)


_FORMS: dict[str, Callable[[Any, _Part, _Parts], str]] = {
    "f": _fraction,
    "rad": _root,
    "sSub": _scripts,
    "sSup": _scripts,
    "sSubSup": _scripts,
    "sPre": _before,
    "nary": _sum,
    "d": _brackets,
    "func": _function,
    "limLow": _low,
    "limUpp": _high,
    "acc": _accent,
    "bar": _bar,
    "eqArr": _rows,
    "m": _matrix,
}
