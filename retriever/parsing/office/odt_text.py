"""OpenDocument texts → Markdown: the parts of the package as a page of HTML, which `html_text` writes.

Deleted text of tracked changes, comments, images, page headers and footers are left out; text boxes, footnotes and
formulas (as they were typed) are read. Elements: Open Document Format 1.3, part 3 (OASIS).
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from html import escape
from typing import Any

from lxml import etree

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.html_text import REPEATED_CHARS, body
from retriever.parsing.office.package import opened, xml
from retriever.types import LoadedDocument

_DROPPED = frozenset([
    "tracked-changes", "annotation", "forms", "sequence-decls", "title", "desc", "ruby-text", "note-citation", "object",
    "binary-data", "table-of-content-source", "alphabetical-index-source", "bibliography-source", "user-index-source",
    "illustration-index-source", "table-index-source", "object-index-source", "covered-table-cell", "hidden-text",
])  # fmt: skip
_WITHIN = {"list-header": "div", "table-header-rows": "thead", "line-break": "br"}
MOST_COPIES = 100
"""A cell or row that is repeated is written so often at most."""
MOST_REPEATED = 50_000
"""Cells and rows of a document that are written again, at most."""
MOST_PARENTS = 20
"""Of a style."""


def read_odt(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is that of its properties, else `stem`. Raises UnreadableDocument."""
    package = opened(data, ".odt")
    manifest = xml(package, "META-INF/manifest.xml")
    if manifest is not None and manifest.find(".//{*}encryption-data") is not None:
        raise UnreadableDocument("the file is protected by a password; save it without")
    content = xml(package, "content.xml")
    text = None if content is None else content.find("{*}body/{*}text")
    if text is None:
        raise UnreadableDocument("this is not an OpenDocument text, or it is damaged; save it again")
    page = _Page(package, _styles(content, xml(package, "styles.xml")))
    page.blocks(text)
    shown, navigation = body(f"<body>{''.join(page.out + page.notes)}</body>")
    meta = xml(package, "meta.xml")
    return LoadedDocument(
        title=_property(meta, "title") or stem,
        text=shown,
        kind="markdown",
        date=iso_date(_property(meta, "date") or _property(meta, "creation-date")),
        navigation=navigation,
    )


def _property(meta: Any, name: str) -> str | None:
    found = None if meta is None else meta.find(f".//{{*}}{name}")
    return None if found is None else " ".join((found.text or "").split()) or None


def _styles(*parts: Any) -> dict[str, Any]:
    """The styles of paragraphs and lists by their names."""
    found: dict[str, Any] = {}
    for part in parts:
        for style in part.iter("{*}style", "{*}list-style") if part is not None else ():
            found.setdefault(_get(style, "name"), style)
    return found


def _get(node: Any, name: str) -> str:
    """An attribute by its local name."""
    return next((value for key, value in node.attrib.items() if etree.QName(key).localname == name), "")


def _count(node: Any, name: str, most: int = MOST_COPIES) -> int:
    value = _get(node, name)
    return max(1, min(int(value), most)) if value.isascii() and value.isdigit() and len(value) < 10 else 1


@dataclass(slots=True)
class _Page:
    package: zipfile.ZipFile
    styles: dict[str, Any]
    out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    """The names of the styles of the open lists, outermost first."""
    cells: int = 0
    """Open cells of tables: a row has room for text only."""
    ends: dict[str, int] = field(default_factory=dict)
    """By list style and level, the number of the last item."""
    levels: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Those of list styles that were looked up."""
    formulas: set[str] = field(default_factory=set)
    """The parts of the package that were read."""
    left: int = MOST_REPEATED

    def blocks(self, node: Any) -> None:
        """What stands in `node`, in its order."""
        if node.text:
            self.out.append(escape(node.text))
        for child in node:
            if isinstance(child.tag, str):
                self._element(child, etree.QName(child).localname)
            if child.tail:
                self.out.append(escape(child.tail))

    def _wrapped(self, node: Any, tag: str, attributes: str = "") -> None:
        self.out.append(f"<{tag}{attributes}>")
        self.blocks(node)
        self.out.append(f"</{tag}>")

    def _element(self, node: Any, name: str) -> None:
        if name == "object":
            self._formula(node)
        elif name in _DROPPED:
            return
        elif name == "h":
            self._wrapped(node, "div" if self.cells else f"h{_count(node, 'outline-level', 6)}")
        elif name == "p":
            self._paragraph(node)
        elif name == "list":
            self._list(node)
        elif name == "table":
            self._wrapped(node, "table")
        elif name == "table-row":
            for _ in range(self._copies(node, "number-rows-repeated")):
                self._wrapped(node, "tr")
        elif name == "table-cell":
            spans = (_count(node, f"number-{name}-spanned") for name in ("columns", "rows"))
            attributes = ' colspan="{}" rowspan="{}"'.format(*spans)
            for _ in range(self._copies(node, "number-columns-repeated")):
                self.cells += 1
                self._wrapped(node, "td", attributes)
                self.cells -= 1
        elif name in ("s", "tab"):
            self.out.append(" " * _count(node, "c"))
        elif name == "a":
            self._wrapped(node, "a", f' href="{escape(_get(node, "href"))}"')
        elif name == "note":
            self._note(node)
        elif name == "text-box":
            self._wrapped(node, "div")
        elif name == "table-of-content":
            for line in (one for one in node.iter("{*}p") if next(one.iterancestors("{*}p"), None) is None):
                self.out.append('<div><a href="#">')
                self.blocks(line)
                self.out.append("</a></div>")
        elif tag := _WITHIN.get(name):
            self._wrapped(node, tag)
        else:
            self.blocks(node)

    def _copies(self, node: Any, name: str) -> int:
        """How often a cell or row is written: copies of long ones, and of those in other cells, could be too many."""
        count = _count(node, name)
        if count - 1 > self.left or self.cells or len("".join(node.itertext())) > REPEATED_CHARS:
            return 1
        self.left -= count - 1
        return count

    def _paragraph(self, node: Any) -> None:
        names = self._named(_get(node, "style-name"))
        if self.cells:
            self._wrapped(node, "div")
        elif "Preformatted_20_Text" in names:
            if self.out and self.out[-1] == "</pre>":
                self.out[-1] = "\n"
            else:
                self.out.append("<pre>\n")
            self.blocks(node)
            self.out.append("</pre>")
        else:
            self._wrapped(node, "h1" if "Title" in names else "div")

    def _named(self, name: str) -> list[str]:
        """A style's name and those of its parents."""
        names: list[str] = []
        while name and name not in names and len(names) < MOST_PARENTS:
            names.append(name)
            name = _get(self.styles[name], "parent-style-name") if name in self.styles else ""
        return names

    def _list(self, node: Any) -> None:
        if node.find(".//{*}h") is not None:  # numbered headings are stored as lists
            self.blocks(node)
            return
        style = _get(node, "style-name") or (self.lists[-1] if self.lists else "")
        self.lists.append(style)
        place = f"{style} {len(self.lists)}"
        level = self._level(style)
        numbered = level is not None and etree.QName(level).localname == "list-level-style-number"
        goes_on = _get(node, "continue-numbering") == "true" or _get(node, "continue-list")
        number = self.ends.get(place, 0) + 1 if goes_on else _count(level, "start-value", 10**9) if numbered else 1
        self.out.append(f'<ol start="{number}">' if numbered else "<ul>")
        for item in node.iterchildren("{*}list-item", "{*}list-header"):
            if etree.QName(item).localname == "list-header":
                self.blocks(item)
            else:
                self._wrapped(item, "li")
                number += 1
        self.ends[place] = number - 1
        self.out.append("</ol>" if numbered else "</ul>")
        self.lists.pop()

    def _level(self, style: str) -> Any:
        """How a list style shows the current level; None if it says nothing."""
        place = style, len(self.lists)
        if place not in self.levels:
            found = self.styles.get(style)
            levels = () if found is None else found
            self.levels[place] = next((one for one in levels if _get(one, "level") == str(place[1])), None)
        return self.levels[place]

    def _note(self, node: Any) -> None:
        mark = "".join(node.itertext("{*}note-citation")) or "*"
        self.out.append(escape(f"[{mark}]"))
        text = node.find("{*}note-body")
        if text is not None:
            around, self.out = self.out, []
            self.blocks(text)
            place = self.out.index("<div>") + 1 if "<div>" in self.out else 0
            self.notes += [*self.out[:place], escape(f"[{mark}] "), *self.out[place:]]
            self.out = around

    def _formula(self, node: Any) -> None:
        """An embedded formula as it was typed. Each is read once: unpacked it may be large."""
        name = _get(node, "href").removeprefix("./").rstrip("/")
        if name in self.formulas:
            return
        self.formulas |= {name} if name else set()
        part = xml(self.package, f"{name}/content.xml") if name else node.find("{*}math")
        typed = None if part is None else part.find(".//{http://www.w3.org/1998/Math/MathML}annotation")
        if typed is not None and typed.text:
            self.out.append(escape(f"${' '.join(typed.text.split())}$"))
