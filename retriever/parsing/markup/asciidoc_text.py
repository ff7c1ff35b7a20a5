"""AsciiDoc → Markdown, line by line, for there is no parser in Python to use.

Knows blocks: titles, lists, tables, code, admonitions, conditions. Files that a document includes are left out.
Syntax: https://docs.asciidoctor.org/asciidoc/latest, and the titles over two lines of AsciiDoc.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from textwrap import dedent

from retriever.parsing.formats import markdown_title
from retriever.parsing.html_text import body_text
from retriever.parsing.markup.asciidoc_inline import Attributes, alternative, inline, substituted
from retriever.parsing.markup.asciidoc_table import table
from retriever.parsing.text import decode
from retriever.types import LoadedDocument

_ATTRIBUTE = re.compile(r":(!?)([\w-]+)(!?):(?:[ \t]+(.*))?$")
_CONDITION = re.compile(r"(ifdef|ifndef|ifeval|endif)::([^\[]*)\[(.*)\]\s*$")
_DIRECTIVE = re.compile(r"include::\S[^\[]*\[.*\]\s*$|toc::\[.*\]\s*$|'''\s*$|<<<+\s*$")
_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)$")
_UNDERLINES = "=-~^+"
_BLOCK_ATTRIBUTES = re.compile(r"\[(?:\[[^\]]*\]|[\w\s.#%,\"'={}:*<>^;|/!?@&()+$-]*)\]\s*$")
_CAPTION = re.compile(r"\.(?=[^\s.])(.*)$")
_VERBATIM = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,})([\w+-]*).*$")
_TABLE = re.compile(r"[|,:!]={3,}\s*$")
_CONTAINER = re.compile(r"(={4,}|\*{4,}|_{4,}|--|~{4,})\s*$")
_ITEM = re.compile(r"[ \t]*(\*{1,6}|-|\.{1,6}|\d{1,4}\.|[a-zA-Z]\.|<[\d.]+>)[ \t]+(?:\[[ x*]\][ \t]+)?(\S.*)$")
_TERM = re.compile(r"[ \t]*(\S(?:.*?\S)?)(::{1,3}|;;)(?:[ \t]+(.*))?$")
_IMAGE = re.compile(r"(?:image|video|audio)::[^\s\[]+\[(.*)\]\s*$")
_ADMONITIONS = frozenset(["NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"])
MOST_DEPTH = 100
MOST_STYLE = 1000
"""Characters of a block's attributes from which further lines of them are left out."""
_CODE = frozenset(["source", "listing", "literal", "stem", "latexmath", "asciimath"])


def read_asciidoc(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is its first heading, else `stem`."""
    page = _Page(decode(data).split("\n"))
    text = page.written()
    return LoadedDocument(title=markdown_title(text) or stem, text=text, kind="markdown")


@dataclass(slots=True)
class _Page:
    lines: list[str]
    out: list[str] = field(default_factory=list)
    attributes: Attributes = field(default_factory=Attributes)
    hidden: list[bool] = field(default_factory=list)
    """Of the open conditions, outermost first, whether it or one around it does not hold."""
    style: str = ""
    """The attributes of the block that comes next, such as `source,python`."""
    markers: list[str] = field(default_factory=list)
    """Those of the open lists, outermost first."""
    numbers: list[int] = field(default_factory=list)
    """Those of their current items."""
    containers: list[str] = field(default_factory=list)
    """The marks that end the open blocks, outermost first."""
    starts: bool = True
    """Whether the next line begins a block."""
    attached: bool = False
    """Whether the next block belongs to the current item of a list."""

    def written(self) -> str:
        place = 0
        while place < len(self.lines):
            place = self._line(place)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.out)).strip("\n")

    def _line(self, place: int) -> int:
        """Reads the line at `place`, or the block that it begins; the place after it."""
        line = self.lines[place].rstrip()
        if condition := _CONDITION.match(line):
            self._condition(*condition.groups())
        elif self._is_hidden() or _DIRECTIVE.match(line):
            pass
        elif not line:
            self.out.append("")
            self.starts = True
        elif line == "+" and self.markers:
            self.out.append("")
            self.starts = self.attached = True
        elif verbatim := _VERBATIM.match(line):
            return self._verbatim(place, verbatim[1], verbatim[2])
        elif line.startswith("//") and not line.startswith("///"):
            if self.starts:
                self._ends_lists()
        elif attribute := _ATTRIBUTE.match(line):
            return self._attribute(place, *attribute.groups())
        elif _TABLE.match(line):
            return self._table(place, line)
        elif _CONTAINER.match(line):
            self._begins(self.style.partition(",")[0])
            if line in self.containers:
                del self.containers[self.containers.index(line) :]
            elif len(self.containers) < MOST_DEPTH:
                self.containers.append(line)
        elif (self.starts or self.markers) and _BLOCK_ATTRIBUTES.match(line):
            if self.starts:
                self._ends_lists()
            if len(self.style) < MOST_STYLE and not line.startswith("[["):
                self.style = ",".join(filter(None, (self.style, line.strip("[] "))))
        elif self.starts and (caption := _CAPTION.match(line)):
            self.out += [self._inline(caption[1]), ""]
        elif self.starts and (level := self._underlined(place)):
            self._title(level, line)
            return place + 2
        elif title := _TITLE.match(line):
            name = title[2].removesuffix(title[1])
            self._title(len(title[1]), name if name.endswith((" ", "\t")) else title[2])
        else:
            return self._text(place, line)
        return place + 1

    def _inline(self, text: str) -> str:
        return inline(text, self.attributes)

    def _is_hidden(self) -> bool:
        return bool(self.hidden) and self.hidden[-1]

    def _condition(self, kind: str, names: str, text: str) -> None:
        if kind == "endif":
            del self.hidden[-1:]
            return
        known = [name.strip() in self.attributes.values for name in re.split("[,+]", names)]
        holds = kind == "ifeval" or (all(known) if "+" in names else any(known)) == (kind == "ifdef")
        if not text or kind == "ifeval":
            self.hidden.append(not holds or self._is_hidden())
        elif holds and not self._is_hidden():
            rest, self.lines = self.lines, [text]
            self._line(0)
            self.lines = rest

    def _attribute(self, place: int, off: str, name: str, off_too: str, value: str | None) -> int:
        parts = [value or ""]
        while f" {parts[-1]}".endswith(" \\") and place + 1 < len(self.lines):
            place += 1
            parts[-1] = parts[-1][:-2].removesuffix(" +")
            parts.append(self.lines[place].strip())
        if off or off_too:
            self.attributes.values.pop(name, None)
        else:
            self.attributes.values[name] = substituted(" ".join(parts), self.attributes)
        return place + 1

    def _underlined(self, place: int) -> int:
        """The level of a title whose next line underlines it; 0 if this is none."""
        title = self.lines[place].rstrip()
        line = self.lines[place + 1].rstrip() if place + 1 < len(self.lines) else ""
        if len(line) < 3 or line != line[0] * len(line) or line[0] not in _UNDERLINES or line in self.containers:
            return 0
        fits = abs(len(line) - len(title)) <= 2 and any(map(str.isalnum, title)) and not title[0].isspace()
        return _UNDERLINES.index(line[0]) + 1 if fits else 0

    def _title(self, level: int, text: str) -> None:
        self._begins("")
        self.out += ["", f"{'#' * level} {self._inline(text).strip()}", ""]
        self.starts = True

    def _begins(self, label: str) -> None:
        """A block begins, or ends, that is not part of a list unless it is attached to it."""
        self._ends_lists()
        self.out.append("")
        if label in _ADMONITIONS:
            self.out += [f"{label}:", ""]
        self.style, self.starts, self.attached = "", True, False

    def _ends_lists(self) -> None:
        if not self.attached:
            self.markers.clear()
            self.numbers.clear()

    def _verbatim(self, place: int, mark: str, language: str) -> int:
        end = place + 1
        while end < len(self.lines) and self.lines[end].rstrip() != mark:
            end += 1
        words = [word.strip(' "') for word in self.style.split(",")]
        kind = words[0].partition("%")[0]
        code = [line for line in self.lines[place + 1 : end] if not _CONDITION.match(line)]
        if mark[0] == "/":
            self.style = ""
        elif mark[0] == "+" and kind not in _CODE:
            self._begins("")
            text = "\n".join(code)
            self.out += [body_text(f"<body>{text}</body>") if "<" in text or "&" in text else text, ""]
        else:
            self._code(code, language or (words[1] if kind == "source" and len(words) > 1 else ""))
        return end + 1

    def _code(self, lines: list[str], language: str) -> None:
        self._begins("")
        language = language if re.fullmatch(r"[\w+#.-]*", language) else ""
        longest = max((len(run) for line in lines for run in re.findall("`{3,}", line)), default=2)
        fence = "`" * (longest + 1)
        if any(line.strip() for line in lines):
            self.out += [f"{fence}{language}", *lines, fence, ""]

    def _table(self, place: int, mark: str) -> int:
        end = place + 1
        while end < len(self.lines) and self.lines[end].rstrip() != mark:
            end += 1
        style = self.style
        self._begins("")
        body = [one for one in self.lines[place + 1 : end] if not (one.startswith("//") or _CONDITION.match(one))]
        self.out += [table(mark, "\n".join(body), style, self._inline), ""]
        return end + 1

    def _text(self, place: int, line: str) -> int:
        """A line of a paragraph or of a list."""
        kind, *words = (word.strip(' "') for word in self.style.split(","))
        indented = line[0] in " \t" and not (_ITEM.match(line) or _TERM.match(line))
        if self.starts and (indented or kind in _CODE):
            end = place + 1
            while end < len(self.lines) and self.lines[end].strip() and self.lines[end].strip() != "+":
                end += 1
            language = words[0] if kind == "source" and words else ""
            self._code(dedent("\n".join(self.lines[place:end])).split("\n"), language)
            return end
        if image := _IMAGE.match(line):
            self.out.append(self._inline(alternative(image[1])))
        elif item := _ITEM.match(line):
            self._item(item[1], item[2])
        elif (self.starts or self.markers) and (term := _TERM.match(line)):
            self.out += ["", self._inline(term[1]), ""]
            self.markers, self.numbers = ["::"], [0]
            if term[3]:
                self.out.append(self._inline(term[3]))
        else:
            if self.starts:
                self._begins(kind)
            self.out.append(self._inline(line.strip() if self.markers else line))
        self.style, self.starts, self.attached = "", False, False
        return place + 1

    def _item(self, marker: str, text: str) -> None:
        kind = marker if marker[0] in "*-." else marker.lstrip("0123456789") if marker[0].isdigit() else marker[-1]
        if kind in self.markers:
            depth = self.markers.index(kind)
            del self.markers[depth + 1 :], self.numbers[depth + 1 :]
        else:
            if self.markers in ([], ["::"]):
                self.out.append("")
            self.markers.append(kind)
            self.numbers.append(0)
        self.numbers[-1] += 1
        indent = "".join("  " if one[0] in "*-" else "" if one == "::" else "   " for one in self.markers[:-1])
        self.out.append(f"{indent}{'-' if kind[0] in '*-' else f'{self.numbers[-1]}.'} {self._inline(text)}")
