"""Dates of documents: how they are written, and where documents give theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fpdf import FPDF

from retriever import Library, SourceDocument
from retriever.dates import iso_date
from retriever.parsing.formats import load_file
from retriever.parsing.pdf_text import read_pdf
from tests.support.hash_embedder import HashEmbedder


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2025-03-01", "2025-03-01"),
        (" 2025-3-1T10:00:00Z", "2025-03-01"),
        ("2025/03", "2025-03"),
        ("2025", "2025"),
        (2025, "2025"),
        ("20250301", "2025-03-01"),
        ("D:20250301120000+01'00'", "2025-03-01"),
        ("1.3.2025", "2025-03-01"),
        ("01. 12. 2024", "2024-12-01"),
        ("'2025-03-01'", "2025-03-01"),
        ("3/1/2025", None),
        ("2025-13-01", None),
        ("1025-01-01", None),
        ("12025", None),
        ("202503011", None),
        ("soon", None),
        (None, None),
        ({"year": 2025}, None),
    ],
)
def test_iso_date(text: object, date: str | None) -> None:
    assert iso_date(text) == date


def test_markdown_gives_it_in_its_front_matter(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("---\ntitle: A\ndate: 2024-05-06\nupdated: '7.8.2025'\n---\nText.")
    assert load_file(file).date == "2025-08-07"
    file.write_text("---\ntitle: A\ndate: May\n---\nText.")
    assert load_file(file).date is None


def test_html_gives_it_in_its_head(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    metas = (
        '<meta property="article:published_time" content="2024-05-06T08:00">'
        '<meta property="article:modified_time" content="2025-01-02T08:00">'
    )
    file.write_text(f"<html><head>{metas}</head><body>Text</body></html>")
    assert load_file(file).date == "2025-01-02"


def test_a_pdf_gives_it_in_its_properties() -> None:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    pdf.set_creation_date(datetime(2024, 5, 6, tzinfo=UTC))
    pdf.add_page()
    pdf.multi_cell(0, text="Some text.")
    assert read_pdf(bytes(pdf.output()), "stem").date == "2024-05-06"


def test_ingested_documents_keep_theirs_and_passages_show_it(tmp_path: Path) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("c")
    text = "---\ndate: 2024-05-06\n---\nHens lay eggs."
    collection.ingest(
        [
            SourceDocument(document_id="own", text=text),
            SourceDocument(document_id="given", text=text, metadata={"date": "2025"}),
            SourceDocument(document_id="none", text="Hens lay eggs."),
            SourceDocument(document_id="odd", text="Hens lay eggs.", metadata={"date": ["x"]}),
        ]
    )
    assert {one.document_id: one.date for one in collection.search("eggs", 9)} == {
        "own": "2024-05-06",
        "given": "2025",
        "none": None,
        "odd": None,
    }
    assert collection.get("own").metadata == {"date": "2024-05-06"}
    assert [one.document_id for one in collection.search("eggs", filter={"date": "2024-05-06"})] == ["own"]
    assert collection.ingest([SourceDocument(document_id="own", text=text)]).unchanged == ("own",)
