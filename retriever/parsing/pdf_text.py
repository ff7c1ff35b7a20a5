"""PDF → text with the offset of each page, and its headings marked with `#`.

Knows pypdfium2. Reads the text layer; where most pages have none, the reading process may have them recognised.
"""

from __future__ import annotations

import re
from collections.abc import Container
from contextlib import closing
from itertools import accumulate

import pypdfium2

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.ocr import Recogniser
from retriever.parsing.pdf_headings import Line, lines_of, marked
from retriever.parsing.pdf_tables import RuledTables
from retriever.parsing.text import clean
from retriever.types import LoadedDocument

PAGE_BREAK = "\n\n"

_HYPHEN_AT_LINE_END = re.compile("([^\\W_]*)[\x02\ufffe][ \t]*\n?(?=([^\\W_]*))")
_COMPOUND = re.compile(r"[^\W_]+-[^\W_]+")
_CONTROLS = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_WORD = re.compile(r"\w\w")
_TRAILING_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
_HEADING = re.compile(r"^# (\S.*)", re.MULTILINE)
_NO_TITLE = re.compile(r"(?i)(page|seite|pagina|blad|confidential|vertraulich|vertrouwelijk|draft|entwurf|concept)\b")
_FILE_LIKE_TITLE = re.compile(
    r"(?i)\.(docx?|pptx?|xlsx?|indd|tex|dvi|pdf)$|^microsoft |^(\W*untitled\W*|\(anonymous\))$"
)


def read_pdf(data: bytes, stem: str, recognise: Recogniser | None = None) -> LoadedDocument:
    """Text of all pages, joined by a blank line.

    If most pages have no words, `recognise` reads those. Raises UnreadableDocument (not a PDF, encrypted, broken, a
    scan).
    """
    if b"%PDF-" not in data[:1024]:
        raise UnreadableDocument(
            "the content is not a PDF; get the file anew if it is damaged, or give it the ending of its real format"
        )
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableDocument("the PDF is protected by a password; save it without one") from None
        raise UnreadableDocument("the PDF is damaged and cannot be opened; export it again") from None
    with closing(document):
        return _read_pages(document, stem, recognise)


def _read_pages(document: pypdfium2.PdfDocument, stem: str, recognise: Recogniser | None) -> LoadedDocument:
    count = len(document)
    texts: list[str] = []
    lines: list[list[Line]] = []
    unreadable = 0
    tables = RuledTables()
    for index in range(count):
        try:
            with closing(document[index]) as page, closing(page.get_textpage()) as text_page:
                texts.append(tables.in_text(page, text_page, clean(text_page.get_text_bounded()), clean))
                lines.append(lines_of(text_page))
        except pypdfium2.PdfiumError:
            unreadable += 1
            texts[index:] = [""]
            lines[index:] = [[]]
    if unreadable == count:
        raise UnreadableDocument("the PDF is damaged: none of its pages can be read; export it again")
    compounds = {compound.lower() for text in texts for compound in _COMPOUND.findall(text)}
    texts = marked(document, [_tidy(text, compounds) for text in texts], lines)
    wordless = [number for number, text in enumerate(texts) if not _WORD.search(text)]
    scan = recognise is not None and len(wordless) * 2 > count
    if recognise is not None and scan:
        for number, text in recognise(document, wordless).items():
            texts[number] = _tidy(clean(text)).strip() or texts[number]
    if not any(texts):
        raise UnreadableDocument(
            "the PDF has no text, and text recognition (OCR) finds none; scan it more sharply"
            if scan
            else "the PDF has no text (a scan?); install Tesseract on the machine of the workers, or run text "
            "recognition (OCR) over it first"
        )
    starts = tuple(accumulate((len(text) + len(PAGE_BREAK) for text in texts[:-1]), initial=0))
    heading = next((one for one in _HEADING.finditer(texts[0]) if not _NO_TITLE.match(one[1])), None)
    title = _title(document) or (heading[1] if heading else stem)
    date = iso_date(_metadata(document, "ModDate")) or iso_date(_metadata(document, "CreationDate"))
    return LoadedDocument(title=title, text=PAGE_BREAK.join(texts), kind="plain", pages=starts, date=date)


def _tidy(text: str, compounds: Container[str] = frozenset()) -> str:
    """`compounds`: words with a hyphen inside a line, in lower case."""

    def joined(match: re.Match[str]) -> str:
        # pdfium gives a word's hyphen at a line end as U+0002; it belongs to the word after a capital or digit
        # (AI-system), and where the document has the word with a hyphen inside a line
        before, after = match[1], match[2]
        kept = before[-1:].isdigit() or before[-1:].isupper() or f"{before}-{after}".lower() in compounds
        return f"{before}-" if kept else before

    text = _HYPHEN_AT_LINE_END.sub(joined, text)
    return _TRAILING_SPACE.sub("", _CONTROLS.sub("", text)).strip("\n")


def _title(document: pypdfium2.PdfDocument) -> str | None:
    title = _metadata(document, "Title")
    return title if title and not _FILE_LIKE_TITLE.search(title) else None


def _metadata(document: pypdfium2.PdfDocument, key: str) -> str:
    try:
        return clean(str(document.get_metadata_value(key))).strip()
    except (pypdfium2.PdfiumError, KeyError, UnicodeDecodeError):
        return ""
