"""E-mails (RFC 5322) → Markdown: subject, sender, receivers, date and text. Attachments are named, not read."""

from __future__ import annotations

import email
import email.policy
import email.utils
from email.message import EmailMessage

from retriever.errors import UnreadableDocument
from retriever.parsing.html_text import body_text
from retriever.parsing.text import check_signature
from retriever.types import LoadedDocument

_SHOWN = ("From", "To", "Cc", "Date")


def read_email(data: bytes, stem: str) -> LoadedDocument:
    """The message. Its title is its subject, else `stem`. Raises UnreadableDocument."""
    check_signature(data, "text")
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    if not any(message[name] for name in ("Subject", *_SHOWN)):
        raise UnreadableDocument("this is not an e-mail: it has neither subject nor sender; save it again")
    subject = " ".join(str(message.get("Subject", "")).split())
    lines = [f"{name}: {' '.join(str(message[name]).split())}" for name in _SHOWN if message[name]]
    part = message.get_body(("plain", "html"))
    text = "" if part is None else str(part.get_content())
    if part is not None and part.get_content_type() == "text/html":
        text = body_text(text)
    names = [name for one in message.iter_attachments() if (name := one.get_filename())]
    parts = [f"# {subject}" if subject else "", "\n".join(lines), text.strip()]
    if names:
        parts.append(f"Attachments: {', '.join(names)}")
    return LoadedDocument(
        title=subject or stem, text="\n\n".join(part for part in parts if part), kind="markdown", date=_date(message)
    )


def _date(message: EmailMessage) -> str | None:
    try:
        return email.utils.parsedate_to_datetime(str(message["Date"])).date().isoformat()
    except (TypeError, ValueError):
        return None
