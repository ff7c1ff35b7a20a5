"""Bytes to clean text."""

from __future__ import annotations

import pytest

from retriever.errors import UnreadableDocument
from retriever.parsing.text import clean, decode


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Größe – 5 €".encode(), "Größe – 5 €"),
        ("Größe".encode("utf-8-sig"), "Größe"),
        ("Größe\r\nzwei".encode("utf-16"), "Größe\nzwei"),
        (b"\xfe\xff" + "Größe".encode("utf-16-be"), "Größe"),
        ("Größe".encode("utf-32"), "Größe"),
        ("Größe – 5 €".encode("cp1252"), "Größe – 5 €"),
        (b"gap \x81 in cp1252 \xe9", "gap \x81 in cp1252 é"),
        (b"one\rtwo\r\nthree\n", "one\ntwo\nthree\n"),
        (b"a lone\x00 NUL in a long enough text", "a lone NUL in a long enough text"),
    ],
)
def test_decode_finds_the_encoding(data: bytes, text: str) -> None:
    assert decode(data + b" " * 200 if b"\x00 NUL" in data else data).rstrip(" ") == text


def test_decode_uses_a_declared_encoding_before_the_fallback() -> None:
    assert decode("Ελλάδα".encode("iso8859-7"), "iso-8859-7") == "Ελλάδα"
    assert decode("Größe".encode("cp1252"), "no-such-encoding") == "Größe"


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 4, b"%PDF-1.7\nrest", b"PK\x03\x04zip", b"\x89PNG\r\n\x1a\n", b"\0\1\2\3", b"ab\0\0cd" * 50],
)
def test_decode_rejects_binary_content(data: bytes) -> None:
    with pytest.raises(UnreadableDocument, match=r"real format|binary"):
        decode(data)


def test_decode_rejects_damaged_utf16() -> None:
    with pytest.raises(UnreadableDocument, match="damaged"):
        decode(b"\xff\xfea\x00b")


def test_clean_drops_what_no_text_should_hold() -> None:
    assert clean("\ufeffa\0b\ud800c\r\nd") == "abc\nd"
    assert clean("😀") == "😀"
