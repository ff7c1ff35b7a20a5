"""The zip package that office files and e-books are, with the properties that they give themselves."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from typing import Any

from lxml import etree

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.text import check_signature

MAX_UNPACKED = 1_000_000_000
"""Bytes that a package may have unpacked."""
_FOLDERS = {
    ending: re.compile(folder).match for ending, folder in ((".docx", "word/"), (".xlsx", "xl/"), (".pptx", "ppt/"))
}
"""By ending, what recognises the parts that such a file has."""
_TYPES = {b"application/epub+zip": ".epub", b"application/vnd.oasis.opendocument.text": ".odt"}
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_TEMPLATES = {"2013-12-23T23:15:00Z", "2013-01-27T09:14:16Z", "2013-01-27T09:15:58Z"}
"""When the templates of python-docx and python-pptx were made and changed. Every file that these programs write says
so, unless told otherwise."""
_ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""What files of Office's older container begin with; Office puts encrypted files into it."""


@dataclass(frozen=True, slots=True)
class Properties:
    title: str | None = None
    date: str | None = None


def opened(data: bytes, ending: str) -> zipfile.ZipFile:
    """The package, of a file with that ending. Raises UnreadableDocument."""
    if data.startswith(_ENCRYPTED):
        raise UnreadableDocument("the file is protected by a password, or of an older format; save it without, anew")
    check_signature(data, "ZIP or office")
    try:
        package = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile:
        advice = "save it again in the program that made it"
        raise UnreadableDocument(f"the file is damaged: it cannot be opened as {ending}; {advice}") from None
    if sum(entry.file_size for entry in package.infolist()) > MAX_UNPACKED:
        raise UnreadableDocument("the file is far larger unpacked than packed; split it")
    kind = _kind(package)
    if kind not in (None, ending):
        raise UnreadableDocument(f"the content is a {kind} file; give it that ending")
    if kind is None and ending in _FOLDERS:
        raise UnreadableDocument(f"this is no {ending} file, or it is damaged; save it again")
    return package


def _kind(package: zipfile.ZipFile) -> str | None:
    """The ending of the files that the content is of; None if it does not say."""
    names = package.namelist()
    said = package.read("mimetype").strip() if "mimetype" in names else b""
    return _TYPES.get(said) or next((one for one, folder in _FOLDERS.items() if any(map(folder, names))), None)


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


def transitional(package: zipfile.ZipFile, data: bytes, main: str) -> bytes:
    """The file with the namespaces that parsers know, if its part `main` has those of "Strict Open XML"."""
    if main not in package.namelist() or b"purl.oclc.org/ooxml" not in package.read(main):
        return data
    copied = io.BytesIO()
    with zipfile.ZipFile(copied, "w") as copy:
        for entry in package.infolist():
            content = package.read(entry)
            if entry.filename.endswith((".xml", ".rels")):
                content = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", content)
            copy.writestr(entry.filename, content)
    return copied.getvalue()


def safe_parser() -> etree.XMLParser:
    """A parser that reads nothing but the text that it is given, damaged as it may be."""
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)


def properties(package: zipfile.ZipFile) -> Properties:
    """Those of an Office file."""
    root = xml(package, "docProps/core.xml") if "docProps/core.xml" in package.namelist() else None
    if root is None:
        return Properties()
    texts = {etree.QName(one).localname: (one.text or "").strip() for one in root if isinstance(one.tag, str)}
    times = [texts.get(name, "") for name in ("modified", "created")]
    date = next((time for time in times if time and time not in _TEMPLATES), None)
    return Properties(texts.get("title") or None, iso_date(date))
