"""Workbooks → Markdown tables, one heading a sheet, by openpyxl (MIT). Cells have the values that were last saved."""

from __future__ import annotations

import datetime
import io
from typing import Any

import openpyxl

from retriever.parsing.office.package import opened, properties, transitional
from retriever.parsing.tables import markdown_table
from retriever.parsing.text import clean
from retriever.types import LoadedDocument


def read_xlsx(data: bytes, stem: str) -> LoadedDocument:
    """The sheets' tables; each sheet is a page. The title is that of the file's properties, else `stem`."""
    package = opened(data, ".xlsx")
    found = properties(package)
    data = transitional(package, data, "xl/workbook.xml")
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    parts: list[str] = []
    pages: list[int] = []
    for sheet in book.worksheets:
        rows = [[_shown(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
        if table := markdown_table(rows):
            pages.append(sum(len(part) for part in parts))
            parts.append(clean(f"# {sheet.title}\n\n{table}\n\n"))
    return LoadedDocument(
        title=found.title or stem, text="".join(parts), kind="markdown", pages=tuple(pages), date=found.date
    )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)
