"""PDF to text with pages."""

from __future__ import annotations

import pytest
from fpdf import FPDF
from fpdf.enums import EncryptionMethod

from retriever.errors import UnreadableDocument
from retriever.parsing.pdf_text import read_pdf


def make_pdf(*pages: str, title: str | None = None, password: str | None = None) -> bytes:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    if title:
        pdf.set_title(title)
    if password:
        pdf.set_encryption(owner_password="o", user_password=password, encryption_method=EncryptionMethod.RC4)
    for page in pages:
        pdf.add_page()
        if page:
            pdf.multi_cell(0, text=page)
    return bytes(pdf.output())


def test_pages_are_joined_and_their_starts_kept() -> None:
    loaded = read_pdf(make_pdf("First page.\nSecond line.", "", "Third page."), "stem")
    assert loaded.text == "First page.\nSecond line.\n\n\n\nThird page."
    assert loaded.pages == (0, 26, 28)
    assert loaded.text[loaded.pages[2] :] == "Third page."
    assert loaded.kind == "plain"


def test_title_is_the_metadata_title_unless_it_is_a_file_name() -> None:
    assert read_pdf(make_pdf("x", title="A report"), "stem").title == "A report"
    assert read_pdf(make_pdf("x", title="report.docx"), "stem").title == "stem"
    assert read_pdf(make_pdf("x"), "stem").title == "stem"


def test_a_scan_is_reported() -> None:
    with pytest.raises(UnreadableDocument, match="may be a scan"):
        read_pdf(make_pdf("", ""), "stem")


def test_a_password_is_reported() -> None:
    with pytest.raises(UnreadableDocument, match="password"):
        read_pdf(make_pdf("secret", password="pw"), "stem")


@pytest.mark.parametrize(
    "data", [b"%PDF-1.7\n", b"%PDF-1.7\n" + b"\xff" * 500, b"%PDF-1.4\ntrailer\n<< /Root 1 0 R >>"]
)
def test_a_damaged_file_is_reported(data: bytes) -> None:
    with pytest.raises(UnreadableDocument, match=r"damaged"):
        read_pdf(data, "stem")


def test_a_truncated_file_is_read_as_far_as_it_goes_or_reported() -> None:
    whole = make_pdf("First page.", "Second page.")
    assert read_pdf(whole, "stem").text.count("page.") == 2
    outcomes = set()
    for cut in range(0, len(whole), 97):
        try:
            outcomes.add("page." in read_pdf(whole[:cut], "stem").text)
        except UnreadableDocument as error:
            outcomes.add(error.reason.split(":")[0])
    assert False not in outcomes
    assert "the PDF is damaged and cannot be opened; export it again" in outcomes


def test_another_format_is_reported() -> None:
    with pytest.raises(UnreadableDocument, match="not a PDF"):
        read_pdf(b"just text", "stem")
