"""E-mails as Markdown."""

from __future__ import annotations

import base64
from email.message import EmailMessage
from pathlib import Path

import pytest

from retriever import UnreadableDocument, load_file
from retriever.types import LoadedDocument

HEAD = "Subject: Hotels\nFrom: a@example.org\n"


def read(folder: Path, content: bytes | str) -> LoadedDocument:
    (folder / "a.eml").write_bytes(content.encode() if isinstance(content, str) else content)
    return load_file(folder / "a.eml")


@pytest.mark.parametrize("html", [False, True])
def test_email(tmp_path: Path, html: bool) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Höchstpreis", "a@example.org", "b@example.org"
    message["Date"] = "Sun, 01 Mar 2026 10:00:00 +0100"
    message.set_content(
        "<p>The limit is <b>210</b>.</p>" if html else "The limit is 210.", subtype="html" if html else "plain"
    )
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="limits.pdf")
    document = read(tmp_path, message.as_bytes())
    assert document.text.endswith("The limit is 210.\n\nAttachments: limits.pdf")
    assert document.text.startswith("# Höchstpreis\n\nFrom: a@example.org\nTo: b@example.org\nDate: ")
    assert (document.title, document.date) == ("Höchstpreis", "2026-03-01")


def mixed(*parts: str) -> str:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return f'{HEAD}Content-Type: multipart/mixed; boundary="b"\n\n{body}--b--\n'


INNER = "Subject: Limits\nFrom: b@example.org\n\nIt is 210.\n"
SHOWN = "# Hotels\n\nFrom: a@example.org\n\n"


@pytest.mark.parametrize("encoded", [False, True])
def test_an_email_in_an_email_is_read(tmp_path: Path, encoded: bool) -> None:
    inner = base64.encodebytes(INNER.encode()).decode() if encoded else INNER
    encoding = "Content-Transfer-Encoding: base64\n" if encoded else ""
    text = mixed("Content-Type: text/plain\n\nSee below.", f"Content-Type: message/rfc822\n{encoding}\n{inner}")
    assert read(tmp_path, text).text == f"{SHOWN}See below.\n\n## Limits\n\nFrom: b@example.org\n\nIt is 210."


def test_emails_in_emails_are_read_to_a_depth(tmp_path: Path) -> None:
    text = INNER
    for number in range(30):
        text = f"Subject: s{number}\nContent-Type: message/rfc822\n\n{text}"
    shown = read(tmp_path, text).text
    assert "s25" in shown
    assert "s5\n" not in shown


def test_all_texts_of_an_email_are_read(tmp_path: Path) -> None:
    text = mixed("Content-Type: text/plain\n\nOne.", "Content-Type: text/html\n\n<p>Two.</p>")
    assert read(tmp_path, text).text == f"{SHOWN}One.\n\nTwo."


def test_of_alternatives_the_first_with_words_is_read(tmp_path: Path) -> None:
    html = "Content-Type: text/html\n\n<p>The <b>limit</b>.</p>"
    for plain, shown in (("The limit!", "The limit!"), ("", "The limit.")):
        text = mixed(f"Content-Type: text/plain\n\n{plain}", html).replace("mixed", "alternative")
        assert read(tmp_path, text).text == SHOWN + shown


def test_the_report_of_a_mail_server_is_read(tmp_path: Path) -> None:
    status = "Content-Type: message/delivery-status\n\nReporting-MTA: dns; example.org\n\nStatus: 5.3.0\n"
    text = read(tmp_path, mixed(status)).text
    assert text == f"{SHOWN}Reporting-MTA: dns; example.org\n\nStatus: 5.3.0"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.parametrize("charset", ["", "; charset=x-unknown", "; charset=us-ascii"])
def test_letters_in_no_or_a_wrong_encoding_are_read(tmp_path: Path, encoding: str, charset: str) -> None:
    content = f"Subject: Höhe\n of limits\nFrom: Jörg <a@example.org>\nContent-Type: text/plain{charset}\n\nGröße.\n"
    document = read(tmp_path, content.encode(encoding))
    assert document.text == "# Höhe of limits\n\nFrom: Jörg <a@example.org>\n\nGröße."
    assert document.title == "Höhe of limits"


def test_an_email_in_utf_16_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, INNER.encode("utf-16")).text == "# Limits\n\nFrom: b@example.org\n\nIt is 210."


def test_a_date_in_iso_form_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, f"Date: 2026-03-01T10:00:00Z\n{INNER}").date == "2026-03-01"


def test_what_is_no_email_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="not an e-mail"):
        read(tmp_path, "Just text.")
