"""The zip package that office files and e-books are, with the properties that they give themselves."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import Any

from lxml import etree

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.text import check_signature

MAX_UNPACKED = 1_000_000_000
"""Bytes that a package may have unpacked."""
_ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""What files of Office's older container begin with; Office puts encrypted files into it."""


@dataclass(frozen=True, slots=True)
class Properties:
    title: str | None = None
    date: str | None = None


def opened(data: bytes) -> zipfile.ZipFile:
    """The package. Raises UnreadableDocument."""
    if data.startswith(_ENCRYPTED):
        raise UnreadableDocument("the file is protected by a password, or of an older format; save it without, anew")
    check_signature(data, "ZIP or office")
    try:
        package = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile:
        raise UnreadableDocument("the file is damaged: it is no zip package; save it again") from None
    if sum(entry.file_size for entry in package.infolist()) > MAX_UNPACKED:
        raise UnreadableDocument("the file is far larger unpacked than packed; split it")
    return package


def xml(package: zipfile.ZipFile, name: str) -> Any:
    """The root element of one of its parts; None if there is no such part. Raises UnreadableDocument."""
    try:
        content = package.read(name)
    except KeyError:
        return None
    root = etree.fromstring(content, safe_parser())
    if root is None:
        raise UnreadableDocument(f"the file is damaged: its part {name} cannot be read; save it again")
    return root


def safe_parser() -> etree.XMLParser:
    """A parser that reads nothing but the text that it is given, damaged as it may be."""
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)


def properties(package: zipfile.ZipFile) -> Properties:
    """Those of an Office file."""
    root = xml(package, "docProps/core.xml") if "docProps/core.xml" in package.namelist() else None
    if root is None:
        return Properties()
    texts = {etree.QName(one).localname: (one.text or "").strip() for one in root if isinstance(one.tag, str)}
    return Properties(texts.get("title") or None, iso_date(texts.get("modified") or texts.get("created")))
