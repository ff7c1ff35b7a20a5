"""HTML → readable text in Markdown form: headings, paragraphs, lists, tables, code.

Knows selectolax (lexbor). Scripts, styles, navigation and hidden parts are dropped; links and emphasis become their
text. Walks the tree without recursion, so depth costs no stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from selectolax.lexbor import LexborHTMLParser, LexborNode

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.html_depth import too_complex
from retriever.parsing.html_math import formula
from retriever.parsing.tables import FILLED_COLUMNS
from retriever.parsing.text import clean, decode
from retriever.types import LoadedDocument

_DROPPED = [
    "script", "style", "nav", "noscript", "template", "svg", "iframe", "canvas", "object", "embed", "audio",
    "video", "button", "select", "dialog", "input", "textarea",
]  # fmt: skip
_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dd", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "li",
    "main", "ol", "p", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
])  # fmt: skip
LINKED = 0.9
"""Share of letters and digits in links within the site from which a block is nothing but such links."""
REPEATED_ROWS = 100
"""Rows over which one cell goes, at most."""
REPEATED_CHARS = 100
"""Longer cells are not repeated in each of these rows."""
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.IGNORECASE)
_DATES = (
    "article:modified_time", "og:updated_time", "dcterms.modified", "last-modified", "article:published_time",
    "dcterms.created", "dcterms.date", "dc.date", "date",
)  # fmt: skip
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
_BACKTICKS = re.compile("`{3,}")


def read_html(data: bytes, stem: str) -> LoadedDocument:
    """Text of the page's main part. Its title is `<title>`, else the first `<h1>`, else `stem`."""
    declared = _CHARSET.search(data[:4096])
    page = decode(data, declared[1].decode("ascii") if declared else None)
    if reason := too_complex(page):
        raise UnreadableDocument(f"the page cannot be read in reasonable time: {reason}; save the text it shows")
    tree = LexborHTMLParser(page)
    title = _one_line(tree.css_first("title")) or _one_line(tree.css_first("h1")) or stem
    date = _date(tree)
    _prepare(tree)
    text, navigation = "", tuple[tuple[int, int], ...]()
    for selector in ("main, [role=main]", "body"):
        root = tree.css_first(selector)
        if root is not None and not text:
            text, navigation = _Writer().write(root)
    if not text:
        raise UnreadableDocument("no text found in the page; it may be built by scripts: save the text it shows")
    return LoadedDocument(title=title, text=text, kind="markdown", date=date, navigation=navigation)


def body_text(page: str) -> str:
    """Text of a page's body in Markdown form; empty if it has none. Raises UnreadableDocument."""
    return body(page)[0]


def body(page: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """`body_text`, and the spans of it that are links within the page and nothing else. Raises UnreadableDocument."""
    if reason := too_complex(page):
        raise UnreadableDocument(f"the file cannot be read in reasonable time: {reason}; simplify it")
    tree = LexborHTMLParser(page)
    _prepare(tree)
    root = tree.css_first("body")
    return ("", ()) if root is None else _Writer().write(root)


def _prepare(tree: LexborHTMLParser) -> None:
    inner = {math.mem_id for math in tree.css("math math")}
    for math in tree.css("math"):
        if math.mem_id not in inner:
            math.replace_with(formula(math))
    tree.strip_tags(_DROPPED)


def _date(tree: LexborHTMLParser) -> str | None:
    """When the page was last changed, or written, as its head says."""
    found = {
        (node.attributes.get("property") or node.attributes.get("name") or "").lower(): node.attributes.get("content")
        for node in tree.css("meta[content]")
    }
    return next((date for name in _DATES if (date := iso_date(found.get(name)))), None)


def _one_line(node: LexborNode | None) -> str:
    return "" if node is None else " ".join(clean(node.text(deep=True)).split())


def _hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or attributes.get("role") == "navigation"
        or "display:none" in (attributes.get("style") or "").replace(" ", "").lower()
    )


@dataclass(slots=True)
class _List:
    number: int | None
    """The next item's number; None in an unordered list."""
    first: int | None = None
    width: int = 2
    """Columns that the current item's text is indented by."""


@dataclass(slots=True)
class _Writer:
    out: list[str] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    """The open lists, outermost first."""
    marker: str = ""
    """Written before the next block: the bullet of a new list item."""
    links: int = 0
    """Open links within the site."""
    linked: int = 0
    """Letters and digits of the current block that are in such links."""
    menus: list[int] = field(default_factory=list)
    """Places in `out` of blocks that are nothing but such links."""

    def write(self, root: LexborNode) -> tuple[str, tuple[tuple[int, int], ...]]:
        """The text, and the spans that are links within the site and nothing else."""
        stack: list[tuple[LexborNode, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                self.links -= _within_site(node)
                self._leave(node.tag or "")
                continue
            if node.is_text_node:
                words = clean(node.text_content or "")
                self.inline.append(words)
                self.linked += _size(words) if self.links else 0
                continue
            if not node.is_element_node or _hidden(node) or not self._enter(node):
                continue
            stack.append((node, True))
            self.links += _within_site(node)
            children = []
            child = node.child
            while child is not None:
                children.append((child, False))
                child = child.next
            stack.extend(reversed(children))
        self._flush()
        text = "\n".join(self.out)
        first = len(text) - len(text.lstrip("\n"))
        ends = list(accumulate(len(part) + 1 for part in self.out))
        spans = ((ends[n] - 1 - len(self.out[n]) - first, ends[n] - 1 - first) for n in self.menus)
        return text.strip("\n"), tuple(spans)

    def _enter(self, node: LexborNode) -> bool:
        """Begin `node`; False if it is written whole, so that its children are not visited."""
        tag = node.tag or ""
        if tag == "br":
            self.inline.append("\n\r")  # \r: a break that was meant; plain newlines are only white space
        elif tag == "pre":
            self._flush()
            self._fence(clean(node.text(deep=True)))
            return False
        elif tag == "table" and not _is_layout(node):
            self._flush()
            self._table(node)
            return False
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._flush()
            if tag in ("ul", "ol"):
                number = _number(node, "start", 10**9) if tag == "ol" else None
                self.lists.append(_List(number, number))
            elif tag == "li":
                self._item()
        return True

    def _leave(self, tag: str) -> None:
        if tag in _HEADINGS:
            heading = " ".join("".join(self.inline).split())
            self.inline.clear()
            self.linked = 0
            if heading:
                self._block("#" * _HEADINGS[tag] + " " + heading)
        elif tag in _BLOCKS:
            self._flush()
            if tag in ("ul", "ol") and self.lists:
                self.lists.pop()
            elif tag == "li":
                self.marker = ""

    def _item(self) -> None:
        current = self.lists[-1] if self.lists else _List(None)
        self.marker = "- " if current.number is None else f"{current.number}. "
        current.width = len(self.marker)
        if current.number is not None:
            current.number += 1

    def _flush(self) -> None:
        lines = [" ".join(line.split()) for line in "".join(self.inline).split("\r")]
        linked, self.linked = self.linked, 0
        self.inline.clear()
        if any(lines):
            self._block("\n".join(line for line in lines if line))
            if linked and linked >= LINKED * sum(map(_size, lines)):
                self.menus.append(len(self.out) - 1)

    def _block(self, text: str) -> None:
        if not self.lists:
            self.out += ["", self.marker + text]
        else:
            indent = " " * sum(outer.width for outer in self.lists[:-1][:8])
            first = self.marker or " " * self.lists[-1].width
            rest = "\n" + indent + " " * len(first)
            if len(self.lists) == 1 and self.marker in ("- ", f"{self.lists[0].first}. "):
                previous = self.out[-1].lstrip() if self.out else ""
                if self.marker != "- " or not previous.startswith("- "):
                    self.out.append("")
            self.out.append(indent + first + text.replace("\n", rest))
        self.marker = ""

    def _fence(self, code: str) -> None:
        code = code.strip("\n")
        if code.strip():
            longest = max((len(run) for run in _BACKTICKS.findall(code)), default=2)
            fence = "`" * (longest + 1)
            self.out += ["", f"{fence}\n{code}\n{fence}"]
            self.marker = ""

    def _table(self, table: LexborNode) -> None:
        rows = [row for row in _rows(table) if any(row)]
        caption = _one_line(table.css_first("caption"))
        if caption:
            self._block(caption)
        if not rows:
            return
        width = max(len(row) for row in rows)
        if width == 1:
            for row in rows:
                self._block(row[0])
            return
        lines = ["| " + " | ".join(row + [""] * (min(width, FILLED_COLUMNS) - len(row))) + " |" for row in rows]
        lines.insert(1, "|" + " --- |" * width)
        self.out += ["", "\n".join(lines)]
        self.marker = ""


def _within_site(node: LexborNode) -> bool:
    """Whether a node is a link to the same site, or to the page in another language."""
    if node.tag != "a":
        return False
    attributes = node.attributes
    target = (attributes.get("href") or "").strip()
    return bool(target) and ("hreflang" in attributes or not _ELSEWHERE.match(target))


def _size(words: str) -> int:
    return sum(1 for char in words if char.isalnum())


def _is_layout(table: LexborNode) -> bool:
    """Whether a table holds whole blocks, so that it is read as text, cell by cell, rather than as rows."""
    return any(inner.mem_id != table.mem_id for inner in table.css("table, pre, h2, h3"))


def _rows(table: LexborNode) -> Iterator[list[str]]:
    """The rows with each cell in its column.

    A cell over several rows is in each of them, unless it is long, and one over several columns in the first.
    """
    above: dict[int, tuple[int, str]] = {}  # by column, cells that go on: over how many rows, and their text
    for line in table.css("tr"):
        row: list[str] = []
        below: dict[int, tuple[int, str]] = {}

        def put(text: str, again: str, rows: int, row: list[str], below: dict[int, tuple[int, str]]) -> None:
            if rows > 1 and len(row) < FILLED_COLUMNS:
                below[len(row)] = rows - 1, again
            row.append(text)

        for cell in [*line.css("td, th"), None]:
            while len(row) in above:
                left, text = above.pop(len(row))
                put(text, text, left, row, below)
            if cell is None:
                break
            text = _cell(cell)
            again = text if len(text) <= REPEATED_CHARS else ""
            rows = _number(cell, "rowspan", REPEATED_ROWS)
            put(text, again, rows, row, below)
            for _ in range(_number(cell, "colspan", FILLED_COLUMNS - len(row) + 1) - 1):
                put("", "", rows, row, below)
        above = below
        yield row


def _number(node: LexborNode, name: str, most: int) -> int:
    value = (node.attributes.get(name) or "").strip()
    return max(1, min(int(value), most)) if value.isascii() and value.isdigit() and len(value) < 10 else 1


def _cell(cell: LexborNode) -> str:
    parts = []
    for node in cell.traverse(include_text=True):
        if node.is_text_node:
            parts.append(clean(node.text_content or ""))
        elif node.tag == "br" or node.tag in _BLOCKS:
            parts.append(" ")
    return " ".join("".join(parts).split()).replace("|", "\\|")
