"""reStructuredText → Markdown, by docutils (public domain).

Directives that read other files are off. Of directives and roles that docutils does not know, such as Sphinx's, the
text is kept: documentation of software is mostly written for Sphinx.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.languages import get_language
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.directives.body import MathBlock
from docutils.utils import new_document
from selectolax.lexbor import LexborHTMLParser

from retriever.errors import UnreadableDocument
from retriever.parsing.formats import markdown_title
from retriever.parsing.html_text import body_text
from retriever.parsing.text import decode
from retriever.types import LoadedDocument

LONGEST_LINE = 100_000
"""Characters; docutils reads nothing of a file with a longer one."""
_SAFE = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 3,
    "halt_level": 5,
    "warning_stream": False,
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "math_output": "LaTeX",
    "doctitle_xform": False,
    "initial_header_level": 1,
    "line_length_limit": LONGEST_LINE,
    "output_encoding": "unicode",
}
_NAME = r"[A-Za-z0-9](?:[\w.+:-]{0,100}\w)?"
"""No part of it is read twice, nor far: else a name with many marks would take forever."""
_DIRECTIVE = re.compile(rf"\.\.[ ]+(?:\|[^|\n]+\|[ ]+)?({_NAME})[ ]?::(?:\s|$)")
_ROLE = re.compile(rf":({_NAME}):(?=`)|(?<=`):({_NAME}):")
_TARGET = re.compile(r"<[^<>]*>$")
_SILENT = frozenset([
    "toctree", "index", "highlight", "currentmodule", "tabularcolumns", "literalinclude", "codeauthor", "sectionauthor",
    "meta", "graphviz", "inheritance-diagram", "testsetup", "testcleanup",
])  # fmt: skip
_CONDITIONS = frozenset(["only", "ifconfig", "cond"])
_LABELS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
    "seealso": "See also",
}
_CODE = frozenset([
    "code", "code-block", "sourcecode", "testcode", "testoutput", "doctest", "productionlist", "prompt", "ipython",
    "ipython3", "jupyter-execute", "plot", "mermaid", "digraph", "graph",
])  # fmt: skip


def read_rst(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is its first heading, else `stem`. Raises UnreadableDocument."""
    text = decode(data)
    if max(map(len, text.splitlines()), default=0) > LONGEST_LINE:
        raise UnreadableDocument(f"a line has over {LONGEST_LINE:,} characters; break it into several")
    _know(text)
    tree = publish_doctree(text, settings_overrides=_SAFE)
    for parent in {id(message.parent): message.parent for message in tree.findall(nodes.system_message)}.values():
        parent[:] = [shown for child in parent for shown in _shown(child)]
    page = publish_from_doctree(tree, writer="html5", settings_overrides=_SAFE)
    shown = LexborHTMLParser(page).css_first("main, body")
    markdown = body_text("" if shown is None else f"<body>{shown.html}</body>")
    return LoadedDocument(title=markdown_title(markdown) or stem, text=markdown, kind="markdown")


def _shown(node: nodes.Node) -> list[nodes.Node]:
    """A directive with an error is shown as it was written; one that is off, and other errors, are not."""
    if not isinstance(node, nodes.system_message):
        return [node]
    return list(node.findall(nodes.literal_block)) if node["level"] >= 3 else []


class _Options(dict[str, Callable[[str | None], Any]]):
    """Any option, as it is written."""

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> Callable[[str | None], Any]:
        return directives.class_option if name == "class" else lambda value: value


class _Any(Directive):  # type: ignore[misc]
    """A directive that docutils does not know: what it is called with, and its content."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _Options()

    def run(self) -> list[nodes.Node]:
        name = self.name.rpartition(":")[2].lower()
        argument = self.arguments[0] if self.arguments and name not in _CONDITIONS else ""
        if name in _SILENT:
            return []
        if name in _CODE:
            text = "\n".join(self.content)
            caption = self.options.get("caption") or ""
            shown = [nodes.literal_block(text, text)] if text else []
            return [nodes.paragraph("", caption), *shown] if caption else list(shown)
        shown = []
        start = " ".join(filter(None, (_LABELS.get(name), argument)))
        if "`" in start:
            parts, messages = self.state.inline_text(start, self.lineno)
            shown += [nodes.paragraph("", "", *parts), *messages]
        elif start:
            shown.append(nodes.paragraph("", start))
        content = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, content)
        return [*shown, *content.children]


class _Math(MathBlock):  # type: ignore[misc]
    option_spec = _Options()


def _role(
    name: str, source: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = None
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """A role that docutils does not know: its text, without the target that it links to."""
    shown = _TARGET.sub("", text).rstrip() or text
    if shown == text and text.startswith(("~", "!")):
        shown = text[1:].rpartition(".")[2] if text[0] == "~" else text[1:]
    return [nodes.literal(source, shown)], []


def _know(text: str) -> None:
    """Gives the directives and roles of `text` that docutils does not know a meaning."""
    language, document = get_language("en", None), new_document("")
    document.reporter.report_level = 5
    directives.register_directive("math", _Math)
    for name in _CODE:
        directives.register_directive(name, _Any)
    for name in set(_DIRECTIVE.findall(text)):
        if directives.directive(name, language, document)[0] is None:
            directives.register_directive(name.lower(), _Any)
    for one in set(_ROLE.findall(text)):
        name = one[0] or one[1]
        if roles.role(name, language, 0, document.reporter)[0] is None:
            roles.register_local_role(name.lower(), _role)
