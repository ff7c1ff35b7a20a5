"""PDF to text with pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pypdfium2
import pytest
from fpdf import FPDF
from fpdf.enums import EncryptionMethod

from retriever import ReadLimits
from retriever.chunking.chunker import chunk
from retriever.errors import UnreadableDocument
from retriever.parsing.file_reader import FileReader
from retriever.parsing.pdf_text import _tidy, read_pdf


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
    with pytest.raises(UnreadableDocument, match=r"a scan\?\); install Tesseract"):
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


BODY = "Members of staff may work from home on two days a week, after talking to their manager. " * 5


def make_report(*, outline: bool, bold: bool = False) -> bytes:
    """Title and two sections; headings larger than the text, or bold, or neither but in the outline."""
    pdf = FPDF()
    pdf.add_page()
    for level, heading in ((0, "Leave and working hours"), (1, "Working from home"), (1, "Parental leave")):
        size = 12 if outline or bold else 20 - 4 * level
        pdf.set_font("Helvetica", style="B" if bold else "", size=size)
        if outline:
            pdf.start_section(heading, level=level)
        pdf.multi_cell(0, text=heading, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", size=12)
        pdf.multi_cell(0, text=BODY, new_x="LMARGIN", new_y="NEXT")
    return bytes(pdf.output())


@pytest.mark.parametrize(
    ("outline", "bold", "levels"), [(True, False, "122"), (False, False, "122"), (False, True, "111")]
)
def test_headings_come_from_the_outline_or_stand_out(outline: bool, bold: bool, levels: str) -> None:
    loaded = read_pdf(make_report(outline=outline, bold=bold), "stem")
    headings = [line for line in loaded.text.split("\n") if line.startswith("#")]
    names = ("Leave and working hours", "Working from home", "Parental leave")
    assert headings == [f"{'#' * int(level)} {name}" for level, name in zip(levels, names, strict=True)]
    parts = chunk(loaded.text, loaded.kind, loaded.pages)
    assert parts[-1].heading[-1] == "Parental leave"
    assert parts[-1].page == 1
    assert all(part.text == loaded.text[part.start : part.end] for part in parts)


@pytest.mark.parametrize(("body", "found"), [(BODY[:90], 4), ("Sam", 0)])
def test_short_sections_have_headings_and_forms_have_none(body: str, found: int) -> None:
    """A third of the first one's lines are headings, and few of its letters."""
    pdf = FPDF()
    pdf.add_page()
    for heading in ("Fire", "First aid", "Capacity", "Ice and wind"):
        pdf.set_font("Helvetica", style="B", size=16)
        pdf.multi_cell(0, text=heading, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", size=12)
        pdf.multi_cell(0, text=body, new_x="LMARGIN", new_y="NEXT")
    loaded = read_pdf(bytes(pdf.output()), "stem")
    assert sum(line.startswith("# ") for line in loaded.text.split("\n")) == found


def test_a_text_of_one_style_has_no_headings_and_a_number_sign_stays_text() -> None:
    loaded = read_pdf(make_pdf(f"# 3 of the list is open.\n{BODY}\n{BODY}"), "stem")
    assert loaded.text.startswith("\\# 3 of the list is open.")
    assert all(part.heading == () for part in chunk(loaded.text, loaded.kind, loaded.pages))


def make_scan(text: str) -> bytes:
    """A page that is a picture of `text`."""
    page = pypdfium2.PdfDocument(make_pdf(text))[0]
    pdf = FPDF()
    pdf.add_page()
    pdf.image(page.render(scale=3, grayscale=True).to_pil(), x=0, y=0, w=pdf.w)
    return bytes(pdf.output())


@pytest.fixture
def recogniser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a Tesseract on PATH that runs these lines of shell."""

    def put(lines: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "tesseract").write_text(f"#!/bin/sh\n{lines}\n")
        (folder / "tesseract").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return put


def test_the_pages_of_a_scan_are_recognised(tmp_path: Path, recogniser: Callable[[str], None]) -> None:
    recogniser('head -c 2; echo; echo "$@"; cat > /dev/null')
    (tmp_path / "scan.pdf").write_bytes(make_pdf("", ""))
    with FileReader(ReadLimits(ocr_languages="nld+eng")) as reader:
        loaded = reader.read(tmp_path / "scan.pdf")
        (tmp_path / "text.pdf").write_bytes(make_pdf("Text.", "More.", ""))
        assert reader.read(tmp_path / "text.pdf").text == "Text.\n\nMore.\n\n"
    assert loaded.text == "P5\nstdin stdout -l nld+eng\n\nP5\nstdin stdout -l nld+eng"
    assert loaded.pages == (0, 28)


def test_recognition_has_its_own_time_and_errors_of_tesseract_say_what_to_do(
    tmp_path: Path, recogniser: Callable[[str], None]
) -> None:
    (tmp_path / "scan.pdf").write_bytes(make_pdf(""))
    recogniser("exec sleep 60")
    with FileReader(ReadLimits(ocr_seconds=0.2)) as reader:
        with pytest.raises(UnreadableDocument, match="longer than allowed; split the file, or raise RAG_OCR__SECONDS"):
            reader.read(tmp_path / "scan.pdf")
        recogniser("cat > /dev/null; echo 'Error opening data file xyz' >&2; exit 1")
        with pytest.raises(UnreadableDocument, match="Error opening data file xyz"):
            reader.read(tmp_path / "scan.pdf")
        recogniser("cat > /dev/null")
        with pytest.raises(UnreadableDocument, match=r"recognition \(OCR\) finds none"):
            reader.read(tmp_path / "scan.pdf")


def test_recognition_can_be_off(tmp_path: Path, recogniser: Callable[[str], None]) -> None:
    recogniser("echo text")
    (tmp_path / "scan.pdf").write_bytes(make_pdf(""))
    with FileReader(ReadLimits(ocr_seconds=0)) as reader, pytest.raises(UnreadableDocument, match="install Tesseract"):
        reader.read(tmp_path / "scan.pdf")


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")
def test_tesseract_reads_a_scan(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(make_scan("Members of staff may work from home on two days a week."))
    with FileReader() as reader:
        assert "work from home on two days a week" in " ".join(reader.read(tmp_path / "scan.pdf").text.split())


def test_a_hyphen_at_a_line_end_stays_where_the_document_has_the_word_with_one() -> None:
    assert _tidy("A high\x02\nrisk sys\x02\ntem, an AI\x02\nact.", {"high-risk"}) == "A high-risk system, an AI-act."
