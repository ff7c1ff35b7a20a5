"""OpenDocument texts as Markdown."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from retriever import UnreadableDocument, load_file
from retriever.types import LoadedDocument

NAMES = " ".join(
    f'xmlns:{name.removesuffix("ing")}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "drawing")
)
LISTS = (
    '<text:list-style style:name="N"><text:list-level-style-number text:level="1"/>'
    '<text:list-level-style-bullet text:level="2"/></text:list-style>'
    '<style:style style:name="P1" style:parent-style-name="Title"/>'
    '<style:style style:name="P2" style:parent-style-name="Preformatted_20_Text"/>'
)
META = (
    '<office:meta xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Travel</dc:title>'
    "<dc:date>2026-03-01T10:00:00</dc:date></office:meta>"
)


def odt(folder: Path, text: str, **parts: str) -> LoadedDocument:
    """The document that is read from a package with `text` in its body."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as package:
        styles = f"<office:automatic-styles>{LISTS}</office:automatic-styles>"
        body = f"<office:body><office:text>{text}</office:text></office:body>"
        package.writestr("content.xml", f"<office:document-content {NAMES}>{styles}{body}</office:document-content>")
        package.writestr("meta.xml", f"<office:document-meta {NAMES}>{META}</office:document-meta>")
        for name, content in parts.items():
            package.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)
    (folder / "a.odt").write_bytes(data.getvalue())
    return load_file(folder / "a.odt")


def p(text: str, style: str = "Standard") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def cell(text: str, more: str = "") -> str:
    return f"<table:table-cell{more}>{p(text)}</table:table-cell>"


def test_headings_paragraphs_and_properties(tmp_path: Path) -> None:
    document = odt(
        tmp_path,
        p("Trips", "P1")
        + '<text:h text:outline-level="2">Hotels</text:h>'
        + p("Per <text:span>n</text:span>ight 1-2."),
    )
    assert document.text == "# Trips\n\n## Hotels\n\nPer night 1-2."
    assert (document.title, document.date, document.kind) == ("Travel", "2026-03-01", "markdown")


def test_what_is_not_text_is_left_out(tmp_path: Path) -> None:
    deleted = f"<text:tracked-changes><text:deletion>{p('gone')}</text:deletion></text:tracked-changes>"
    link = '<text:a xmlns:x="x" x:href="https://example.org/a">the list</text:a>'
    image = '<draw:frame><draw:image xmlns:x="x" x:href="Pictures/1.jpg"/></draw:frame>'
    box = f"<draw:frame><draw:text-box>{p('A map')}</draw:text-box></draw:frame>"
    note = f"<office:annotation>{p('remark')}</office:annotation>"
    assert odt(tmp_path, deleted + p(f"See{note} {link}.{image}{box}")).text == "See the list.\n\nA map"


def test_a_row_of_a_table_has_its_cells_in_their_columns(tmp_path: Path) -> None:
    over_two_rows = ' table:number-rows-spanned="2"'
    rows = (
        f"<table:table-header-rows><table:table-row>{cell('City')}{cell('Limit')}</table:table-row>"
        "</table:table-header-rows>"
        f"<table:table-row>{cell('Zurich, <text:line-break/>in winter', over_two_rows)}"
        f"{cell('210')}</table:table-row>"
        f"<table:table-row><table:covered-table-cell/><table:table-cell>{p('180', 'P2')}</table:table-cell>"
        "</table:table-row>"
    )
    assert odt(tmp_path, f"<table:table>{rows}</table:table>").text == (
        "| City | Limit |\n| --- | --- |\n| Zurich, in winter | 210 |\n| Zurich, in winter | 180 |"
    )


def test_lists_have_the_kind_and_the_numbers_of_their_style(tmp_path: Path) -> None:
    def items(*texts: str) -> str:
        return "".join(f"<text:list-item>{text}</text:list-item>" for text in texts)

    inner = f"<text:list>{items(p('one'), p('two'))}</text:list>"
    first = f'<text:list text:style-name="N">{items(p("a") + inner, p("b"))}</text:list>'
    second = f'<text:list text:style-name="N" text:continue-numbering="true">{items(p("c"))}</text:list>'
    text = odt(tmp_path, first + p("Between.") + second).text
    assert text == "1. a\n   - one\n   - two\n2. b\n\nBetween.\n\n3. c"


def test_headings_in_lists_are_headings(tmp_path: Path) -> None:
    text = '<text:list text:style-name="N"><text:list-item><text:h text:outline-level="1">Hotels</text:h>'
    assert odt(tmp_path, f"{text}</text:list-item></text:list>").text == "# Hotels"


def test_notes_follow_the_text(tmp_path: Path) -> None:
    note = f"<text:note><text:note-citation>1</text:note-citation><text:note-body>{p('In 2026.')}</text:note-body>"
    assert odt(tmp_path, p(f"A limit{note}</text:note> holds.") + p("End.")).text == (
        "A limit[1] holds.\n\nEnd.\n\n[1] In 2026."
    )


def test_code_keeps_its_lines_and_spaces(tmp_path: Path) -> None:
    assert odt(tmp_path, p("if x:", "P2") + p('<text:s text:c="2"/>y()', "P2")).text == "```\nif x:\n  y()\n```"


def test_a_table_of_contents_is_navigation(tmp_path: Path) -> None:
    lines = f"<text:index-body>{p('Hotels<text:tab/>1')}</text:index-body>"
    source = "<text:table-of-content-source><text:index-title-template>x</text:index-title-template>"
    text = f"<text:table-of-content>{source}</text:table-of-content-source>{lines}</text:table-of-content>"
    document = odt(tmp_path, text + p("Per night."))
    assert document.text == "Hotels 1\n\nPer night."
    assert document.navigation == ((0, 8),)


def test_a_formula_is_read_as_it_was_typed(tmp_path: Path) -> None:
    frame = '<draw:frame><draw:object xmlns:x="x" x:href="./Object 1"/></draw:frame>'
    formula = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mi>E</mi>'
        '<annotation encoding="StarMath 5.0">E = m cdot c^2</annotation></semantics></math>'
    )
    assert odt(tmp_path, p(frame), **{"Object 1__content_xml": formula}).text == "$E = m cdot c^2$"


def test_a_password_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="password"):
        odt(tmp_path, p("x"), **{"META-INF__manifest_xml": "<m><f><encryption-data/></f></m>"})


def test_repeated_cells_are_written_again_within_limits(tmp_path: Path) -> None:
    twice, many = (f' table:number-columns-repeated="{count}"' for count in (2, 16384))
    rows = f"<table:table-row>{cell('a', twice)}{cell('', many)}</table:table-row>"
    text = odt(tmp_path, f"<table:table>{rows}</table:table>").text
    assert text.startswith("| a | a |  |")
    assert text.count("|") < 1000
    inner = f"<table:table><table:table-row>{cell('in', many)}</table:table-row></table:table>"
    nested = f"<table:table><table:table-row><table:table-cell{many}>{inner}</table:table-cell></table:table-row>"
    assert odt(tmp_path, f"{nested}</table:table>").text.count("in") <= 100
