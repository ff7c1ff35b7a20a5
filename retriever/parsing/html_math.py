"""Formulas of web pages and e-books (MathML 3) → text in LaTeX's form, where the page does not give it itself.

Knows selectolax's nodes. Letters and signs stay the characters that they are.
"""

from __future__ import annotations

from selectolax.lexbor import LexborNode

MAX_DEPTH = 100


def formula(math: LexborNode) -> str:
    """`$…$` of a `<math>`; empty if it shows nothing."""
    notes = (one for one in math.css("annotation") if "tex" in (one.attributes.get("encoding") or "").lower())
    typed = next(notes, None)
    text = " ".join((typed.text() if typed is not None else _linear(math, 0)).split())
    return f"${text}$" if text else ""


def _linear(node: LexborNode, depth: int) -> str:
    if depth > MAX_DEPTH or node.tag in ("annotation", "annotation-xml"):
        return ""
    if not any(child.is_element_node for child in node.iter(include_text=True)):
        return node.text().strip()
    parts = [_linear(child, depth + 1) for child in node.iter()]
    tag = node.tag or ""
    if written := _FORMS.get((tag, len(parts))):
        return written.format(*parts)
    if tag == "mtable":
        return " \\\\ ".join(parts)
    text = (" & " if tag == "mtr" else " ").join(part for part in parts if part or tag == "mtr")
    if tag == "mfenced":
        return f"{node.attributes.get('open') or '('}{text}{node.attributes.get('close') or ')'}"
    return f"\\sqrt{{{text}}}" if tag == "msqrt" else text


_FORMS = {
    ("mfrac", 2): "\\frac{{{}}}{{{}}}",
    ("msup", 2): "{}^{{{}}}",
    ("msub", 2): "{}_{{{}}}",
    ("msubsup", 3): "{}_{{{}}}^{{{}}}",
    ("mover", 2): "{}^{{{}}}",
    ("munder", 2): "{}_{{{}}}",
    ("munderover", 3): "{}_{{{}}}^{{{}}}",
    ("mroot", 2): "\\sqrt[{1}]{{{0}}}",
}
"""By an element's name and number of children."""
