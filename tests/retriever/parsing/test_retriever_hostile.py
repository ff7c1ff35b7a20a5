"""Files made to take long: each is read within the limits of the reading process.

Each had a megabyte that took minutes, or none that ended.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.parsing.file_reader import FileReader

SIZE = 1_000_000
MAIL = "From: a@example.org\nSubject: x\n"
ODT = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("style", "style"),
        ("d", "drawing"),
    )
)


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    with FileReader() as one:
        yield one


def zipped(parts: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return data.getvalue()


def odt(text: str, styles: str = "", formula: str = "") -> bytes:
    body = f"<office:body><office:text>{text}<text:p>End</text:p></office:text></office:body>"
    content = f"<office:x {ODT}><office:styles>{styles}</office:styles>{body}</office:x>"
    return zipped({"content.xml": content, "O/content.xml": formula})


def epub(chapter: str, spine: str) -> bytes:
    item = '<item id="a" href="a.html" media-type="text/html"/>'
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfile full-path="book.opf"/></container>',
            "book.opf": f"<package><manifest>{item}</manifest><spine>{spine}</spine></package>",
            "a.html": chapter,
        }
    )


LIST = '<text:list text:style-name="N"><text:list-item><text:p>a</text:p></text:list-item></text:list>'
STYLES = "".join(f'<style:style style:name="S{n}" style:parent-style-name="S{n + 1}"/>' for n in range(8000))
ROW = (
    '<table:table-row table:number-rows-repeated="100">'
    f'<table:table-cell table:number-columns-repeated="100"><text:p>{"a" * 99}</text:p></table:table-cell>'
    "</table:table-row>"
)
NESTED = "".join(f"--b{n}\nContent-Type: multipart/mixed; boundary=b{n + 1}\n\n" for n in range(900))
HOSTILE: dict[str, str | bytes] = {
    "a cross reference.adoc": f"<<a,{' ' * SIZE}x",
    "a title.adoc": f"= a{' ' * SIZE}x",
    "an include.adoc": f"include::a{'[' * SIZE}",
    "macros.adoc": "pass:" * (SIZE // 5),
    "conditions.adoc": "ifndef::a[]\nx\n" * (SIZE // 14),
    "attributes.adoc": f":a: {'y' * 9000}\n\n" + "{a}\n" * (SIZE // 4),
    "doubled attributes.adoc": ":a: {a}{a}\n" * (SIZE // 11) + "End",
    "an indented plus.adoc": " +\n",
    "copied cells.adoc": '[cols="100*"]\n|===\n' + "100*|a\n" * (SIZE // 7) + "|===\n",
    "a directive.rst": f".. {'a_' * 60} x\n\nEnd",
    "a role.rst": f"A :{'a_' * 60} x\n",
    "receivers.eml": f"{MAIL}To: {'a@b,' * (SIZE // 4)}\n\nEnd",
    "a subject.eml": f"Subject: {'a ' * (SIZE // 2)}\n\nEnd",
    "comments.eml": f"{MAIL}To: {'(' * SIZE}\n\nEnd",
    "parts.eml": f"{MAIL}Content-Type: multipart/alternative; boundary=b\n\n" + "--b\n\nx\n" * (SIZE // 7),
    "parts in parts.eml": f"{MAIL}Content-Type: multipart/mixed; boundary=b0\n\n{NESTED}" + "\n" * (SIZE // 2),
    "a report.eml": f"{MAIL}Content-Type: message/delivery-status\n\nTo: {'b,' * (SIZE // 2)}\n",
    "an encoding of names.eml": f"{MAIL}Content-Type: text/plain; charset=punycode\n\nabc-{'a9b8' * (SIZE // 4)}",
    "an encoding that has no text.html": b"<meta charset=undefined><p>\xe9",
    "formulas.html": "<p>x<p>" + "<math>" * 5900 + "<mi>a</mi>" * 95_000,
    "a wide row.csv": "b\n" * (SIZE // 2) + "a," * 1000 + "a",
    "levels.odt": odt(LIST * 5000, f'<text:list-style style:name="N">{"<text:x/>" * 20_000}</text:list-style>'),
    "parents.odt": odt('<text:p text:style-name="S0">a</text:p>' * 12_000, STYLES),
    "formulas.odt": odt('<d:object d:href="./O"/>' * 30_000, formula=f"<math>{'<mi>a</mi>' * 50_000}</math>"),
    "rows.odt": odt(f"<table:table>{ROW * 4000}</table:table>"),
    "contents.odt": odt(
        f"<text:table-of-content>{'<text:p>' * 200}{'<text:s/>a' * 20_000}{'</text:p>' * 200}</text:table-of-content>"
    ),
    "chapters.epub": epub(f"<body>{'<p>abc</p>' * 10_000}", '<itemref idref="a"/>' * 30_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_made_to_take_long_is_read(reader: FileReader, tmp_path: Path, name: str) -> None:
    content = HOSTILE[name]
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    assert reader.read(tmp_path / name).text
