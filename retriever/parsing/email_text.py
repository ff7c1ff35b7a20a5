"""E-mails (RFC 5322) → Markdown: subject, sender, receivers, date and text, and those of e-mails inside.

Attachments are named, not read; what a mail server reports of its delivery (RFC 3464) is read.
"""

from __future__ import annotations

import email
import email.errors
import email.header
import email.policy
import email.utils
import re
from collections.abc import Iterator
from email.message import EmailMessage
from functools import lru_cache
from typing import Any

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.html_text import body_text
from retriever.parsing.text import check_signature, decode, decoded_as
from retriever.types import LoadedDocument

_SHOWN = ("From", "To", "Cc", "Date")
_UNDECODED = re.compile("[\udc80-\udcff]")
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""What files in UTF-16 begin with."""
MOST_DEPTH = 10
"""E-mails that may be inside each other."""
MOST_PARTS = 25
"""Parts that may be inside each other: each line is compared with the borders of all around it."""
PARSED_CHARS = 5000
"""Of a header, whose parsing takes time that grows with the square of its length."""
MOST_CHARS = 20_000
"""Of a header; those behind `PARSED_CHARS` are decoded, but not parsed."""


class _Policy(email.policy.EmailPolicy):
    """Headers by the standard, so far as they keep to it."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return _parsed(name, value[:PARSED_CHARS])


@lru_cache(maxsize=1000)
def _parsed(name: str, value: str) -> Any:
    try:
        return email.policy.default.header_fetch_parse(name, value)
    except Exception:  # the standard library's parser raises errors of many kinds
        return email.policy.default.header_fetch_parse(name, "")


class _Part(EmailMessage):
    """An e-mail or a part of one; those too deep inside others are not taken apart."""

    depth = 0

    def attach(self, payload: Any) -> None:
        payload.depth = self.depth + 1
        super().attach(payload)

    def get_content_type(self) -> str:
        return super().get_content_type() if self.depth <= MOST_PARTS else "application/octet-stream"


_POLICY = _Policy(message_factory=_Part)


def read_email(data: bytes, stem: str) -> LoadedDocument:
    """The message. Its title is its subject, else `stem`. Raises UnreadableDocument."""
    check_signature(data, "text")
    if data.startswith(_WIDE):
        data = decode(data).encode()
    message = email.message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(), policy=_POLICY)
    assert isinstance(message, EmailMessage)
    if not any(_header(message, name) for name in ("Subject", *_SHOWN)):
        raise UnreadableDocument("this is not an e-mail: it has neither subject nor sender; save it again")
    return LoadedDocument(
        title=_header(message, "Subject") or stem,
        text="\n\n".join(part for part in _message(message, 1) if part),
        kind="markdown",
        date=_date(message),
    )


def _message(message: EmailMessage, level: int) -> Iterator[str]:
    """The blocks of its text."""
    subject = _header(message, "Subject")
    yield f"{'#' * min(level, 6)} {subject}" if subject else ""
    yield "\n".join(f"{name}: {shown}" for name in _SHOWN if (shown := _header(message, name)))
    names: list[str] = []
    yield from _part(message, level, names)
    yield f"Attachments: {', '.join(names)}" if names else ""


def _part(part: EmailMessage, level: int, names: list[str]) -> Iterator[str]:
    """The blocks of one part; the names of attachments come into `names`."""
    kind, name = part.get_content_type(), " ".join((part.get_filename() or "").split())
    if kind == "message/rfc822":
        for inner in part.iter_parts() if level < MOST_DEPTH else ():
            assert isinstance(inner, EmailMessage)
            yield from _message(_unwrapped(part, inner), level + 1)
    elif kind == "message/delivery-status":
        blocks = (block.raw_items() for block in part.iter_parts() if isinstance(block, EmailMessage))
        yield "\n\n".join("\n".join(f"{key}: {_unfolded(value)}" for key, value in block) for block in blocks)
    elif part.is_multipart():
        parts = [one for one in part.iter_parts() if isinstance(one, EmailMessage)]
        for one in _best(parts) if kind == "multipart/alternative" else parts:
            yield from _part(one, level, names)
    elif name or part.is_attachment():
        names += [name] if name else []
    else:
        yield _text(part)


def _unwrapped(part: EmailMessage, inner: EmailMessage) -> EmailMessage:
    """The e-mail in a part, decoded: some programs encode it, though they must not."""
    encoding = str(part.get("Content-Transfer-Encoding", "")).lower()
    if encoding not in ("base64", "quoted-printable") or inner.items():
        return inner
    wrapped = EmailMessage()
    wrapped["Content-Transfer-Encoding"] = encoding
    wrapped.set_payload(inner.get_payload())
    data = wrapped.get_payload(decode=True)
    assert isinstance(data, bytes)
    decoded = email.message_from_bytes(data, policy=_POLICY)
    assert isinstance(decoded, EmailMessage)
    return decoded


def _best(parts: list[EmailMessage]) -> list[EmailMessage]:
    """Of parts that say the same, the plain text if it says anything, and all that are no text."""
    texts = [one for one in parts if one.get_content_maintype() == "text"]
    plain = [one for one in texts if one.get_content_type() == "text/plain" and _text(one)]
    best = (plain or [one for one in texts if one.get_content_type() == "text/html"] or texts)[:1]
    left_out = {id(one) for one in texts} - {id(one) for one in best}
    return [one for one in parts if id(one) not in left_out]


def _text(part: EmailMessage) -> str:
    """The text of a part; empty for any other."""
    if part.get_content_maintype() != "text":
        return ""
    data = part.get_payload(decode=True)
    assert isinstance(data, bytes)
    text = decoded_as(data, part.get_content_charset() or "ascii")
    if text is None:
        text = decode(data)
    return (body_text(text) if part.get_content_type() == "text/html" else text).strip()


def _header(message: EmailMessage, name: str) -> str:
    """A header on one line; empty if there is none. Letters that are not encoded as they should be are read, too."""
    shown = message[name]
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    if _UNDECODED.search(raw):
        shown = message.policy.header_fetch_parse(name, _unfolded(raw))
    if len(raw) > PARSED_CHARS or not shown:
        shown = _decoded(_unfolded(raw[:MOST_CHARS]))
    return " ".join(str(shown).split())


def _unfolded(raw: str) -> str:
    """A header on one line, with the letters that are not encoded as they should be."""
    text = decode(raw.encode("utf-8", "surrogateescape")) if _UNDECODED.search(raw) else raw
    return " ".join(text.split())


def _decoded(raw: str) -> str:
    """A header with its encoded words decoded, without knowing what stands in it."""
    try:
        return str(email.header.make_header(email.header.decode_header(raw)))
    except (LookupError, ValueError, email.errors.HeaderParseError):
        return raw


def _date(message: EmailMessage) -> str | None:
    written = _header(message, "Date")
    try:
        return email.utils.parsedate_to_datetime(written).date().isoformat()
    except (TypeError, ValueError):
        return iso_date(written)
