"""Bytes to clean text: encodings, newlines, characters that no text should hold.

Knows no file format. Stored text has `\n` line ends only, no NUL and no unpaired surrogates, so that offsets, SQLite
and JSON all see the same code points.
"""

from __future__ import annotations

import codecs
import re

from retriever.errors import UnreadableDocument

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP or office"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"\x1f\x8b", "gzip"),
    (b"\x7fELF", "program"),
    (b"\xd0\xcf\x11\xe0", "old office"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SLOW = frozenset(["punycode", "idna", "undefined"])
"""Encodings of names in Python, which no text has; their time grows with the square of its length."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_CP1252_GAPS = {0x81: "\x81", 0x8D: "\x8d", 0x8F: "\x8f", 0x90: "\x90", 0x9D: "\x9d"}


def _keep_gap(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _CP1252_GAPS[error.object[error.start]], error.start + 1


codecs.register_error("retriever.cp1252", _keep_gap)


def clean(text: str) -> str:
    """`text` with `\\n` line ends, without a leading BOM, NULs and unpaired surrogates."""
    if text.startswith("\ufeff"):
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "")
    return _SURROGATES.sub("", text)


def check_signature(data: bytes, wanted: str) -> None:
    """Raises UnreadableDocument if the content begins like a file of some other format than `wanted`."""
    for magic, kind in _SIGNATURES:
        if data.startswith(magic) and kind != wanted:
            raise UnreadableDocument(
                f"the content is a {kind} file, not {wanted}; give it the ending of its real format"
            )


def decoded_as(data: bytes, encoding: str) -> str | None:
    """Text of `data` in an encoding that the document names; None if it is not in that encoding, or there is none."""
    try:
        return None if codecs.lookup(encoding).name in _SLOW else data.decode(encoding)
    except (LookupError, ValueError):  # also UnicodeError, and names with a NUL
        return None


def decode(data: bytes, declared: str | None = None) -> str:
    """Clean text of `data`: by its byte order mark, as UTF-8, as `declared`, else as Windows-1252.

    Raises UnreadableDocument for binary content.
    """
    check_signature(data, "text")
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return clean(data.decode(encoding))
            except UnicodeDecodeError as error:
                raise UnreadableDocument(f"the text is damaged: not valid {encoding} ({error.reason})") from None
    sample = data[:65536]
    if len(_CONTROLS.findall(sample)) * 200 > len(sample) or sample.count(0) > 1:
        raise UnreadableDocument("the content is binary, not text; convert it to a supported format first")
    for candidate in ("utf-8", declared):
        if candidate and (text := decoded_as(data, candidate)) is not None:
            return clean(text)
    return clean(data.decode("cp1252", errors="retriever.cp1252"))
