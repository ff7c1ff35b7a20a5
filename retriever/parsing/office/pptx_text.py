"""Presentations → Markdown, by python-pptx (MIT): one heading a slide, with its text, tables and notes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pptx
from lxml import etree
from pptx.enum.shapes import PP_PLACEHOLDER

from retriever.parsing.office.package import opened, properties, safe_parser, transitional
from retriever.parsing.tables import markdown_table
from retriever.parsing.text import clean
from retriever.types import LoadedDocument

_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_REPEATED = (PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER)


def read_pptx(data: bytes, stem: str) -> LoadedDocument:
    """The slides' text; each slide is a page. The title is that of the file's properties, else `stem`."""
    package = opened(data, ".pptx")
    found = properties(package)
    presentation = pptx.Presentation(io.BytesIO(transitional(package, data, "ppt/presentation.xml")))
    parts: list[str] = []
    pages: list[int] = []
    for number, slide in enumerate(presentation.slides, start=1):
        title = slide.shapes.title
        name = _line(title.text_frame.text) if title is not None else ""
        lines = [f"# {name or f'Slide {number}'}"]
        shapes = (shape for shape in _flat(slide.shapes) if shape != title and not _repeated(shape))
        lines += [text for shape in shapes if (text := _text(shape))]
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            lines += [notes.text.strip()] if notes.text.strip() else []
        pages.append(sum(len(part) for part in parts))
        parts.append(clean("\n\n".join(lines) + "\n\n"))
    return LoadedDocument(
        title=found.title or stem, text="".join(parts), kind="markdown", pages=tuple(pages), date=found.date
    )


def _flat(shapes: Iterable[Any]) -> Iterator[Any]:
    """Shapes in the order in which they are stored, those of groups in their place."""
    waiting = list(shapes)[::-1]
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):
            waiting += list(shape.shapes)[::-1]
        else:
            yield shape


def _text(shape: Any) -> str:
    if getattr(shape, "has_table", False):
        return markdown_table([[cell.text for cell in row.cells] for row in shape.table.rows])
    if getattr(shape, "has_chart", False):
        return _chart(shape.chart)
    diagram = shape._element.find(f".//{{{_DIAGRAM}}}relIds")
    if diagram is not None:
        return _diagram(shape.part.related_part(diagram.get(f"{{{_RELATIONS}}}dm")).blob)
    if not getattr(shape, "has_text_frame", False):
        return ""
    lines = [("  " * part.level, _line(part.text)) for part in shape.text_frame.paragraphs]
    filled = [(indent, text) for indent, text in lines if text]
    if len(filled) == 1:
        return filled[0][1]
    return "\n".join(f"{indent}- {text}" for indent, text in filled)


def _repeated(shape: Any) -> bool:
    """Whether a shape is a slide's date, number or footer."""
    return bool(shape.is_placeholder) and shape.placeholder_format.type in _REPEATED


def _diagram(part: bytes) -> str:
    """The texts of a diagram (SmartArt), one after the other."""
    root = etree.fromstring(part, safe_parser())
    texts = [] if root is None else root.iterfind(f"{{{_DIAGRAM}}}ptLst/{{{_DIAGRAM}}}pt/{{{_DIAGRAM}}}t")
    lines = (_line(" ".join("".join(line.itertext()) for line in text.iterfind("{*}p"))) for text in texts)
    return "\n".join(f"- {line}" for line in lines if line)


def _chart(chart: Any) -> str:
    """A chart's title and its values, a row for each category."""
    title = _line(chart.chart_title.text_frame.text) if chart.has_title and chart.chart_title.has_text_frame else ""
    rows: list[list[str]] = []
    for plot in chart.plots:
        series = list(plot.series)
        columns = [one.values for one in series]
        rows.append(["", *(str(one.name) for one in series)])
        for number, category in enumerate(plot.categories):
            values = [one[number] if number < len(one) else None for one in columns]
            rows.append([str(category), *("" if value is None else f"{value:g}" for value in values)])
    return "\n\n".join(part for part in (title, markdown_table(rows)) if part)


def _line(text: str) -> str:
    return " ".join(text.split())
