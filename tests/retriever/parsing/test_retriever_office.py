"""Office files, e-books, tables, JSON and notebooks as Markdown."""

from __future__ import annotations

import io
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import openpyxl
import pptx
import pytest
from lxml import etree
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from retriever import UnreadableDocument, UnsupportedFormat, load_file
from retriever.parsing.file_reader import FileReader, ReadLimits
from retriever.types import LoadedDocument

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
TABLE = "| City | Limit |\n| --- | --- |\n| Zurich | 210 |"
CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:t="http://purl.org/dc/terms/">'
    "<dc:title>Travel</dc:title><t:modified>2026-03-01T10:00:00Z</t:modified></cp:coreProperties>"
)


def zipped(parts: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as package:
        for name, text in parts.items():
            package.writestr(name, text)
    return data.getvalue()


def docx(namespace: str = W, more: str = "", core: str = CORE) -> bytes:
    def cell(text: str) -> str:
        return f"<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"

    styles = '<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    rows = "".join(f"<w:tr>{cell(one)}{cell(two)}</w:tr>" for one, two in (("City", "Limit"), ("Zurich", "210")))
    body = (
        '<w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>Hotels</w:t></w:r></w:p>'
        f"<w:p><w:r><w:t>Per night.</w:t></w:r></w:p><w:tbl>{rows}</w:tbl>{more}"
    )
    kinds = "http://schemas.openxmlformats.org/package/2006/content-types"
    rels = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{kinds}"><Default Extension="xml" '
            'ContentType="application/xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{rels}"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{rels}"><Relationship Id="r2" '
            f'Type="{office}/styles" Target="styles.xml"/></Relationships>',
            "word/styles.xml": f'<w:styles xmlns:w="{namespace}">{styles}</w:styles>',
            "docProps/core.xml": core,
        }
    )


def loaded(folder: Path, name: str, content: bytes | str) -> LoadedDocument:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_file(path)


def test_a_docx_without_a_title_property_has_its_first_heading_as_title(tmp_path: Path) -> None:
    untitled = CORE.replace("<dc:title>Travel</dc:title>", "")
    assert loaded(tmp_path, "a.docx", docx(core=untitled)).title == "Hotels"


@pytest.mark.parametrize("namespace", [W, "http://purl.oclc.org/ooxml/wordprocessingml/main"])
def test_docx(tmp_path: Path, namespace: str) -> None:
    document = loaded(tmp_path, "a.docx", docx(namespace))
    assert document.text.strip() == f"# Hotels\n\nPer night.\n\n{TABLE}"
    assert (document.title, document.date, document.kind) == ("Travel", "2026-03-01", "markdown")


def test_pptx(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Hotels"
    first.placeholders[1].text = "Per night\vin Europe\nTwo nights"
    first.notes_slide.notes_text_frame.text = "Say it slowly."
    second = deck.slides.add_slide(deck.slide_layouts[6])
    table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for (row, column), text in {(0, 0): "City", (0, 1): "Limit", (1, 0): "Zurich", (1, 1): "210"}.items():
        table.cell(row, column).text = text
    deck.save(str(tmp_path / "a.pptx"))
    document = load_file(tmp_path / "a.pptx")
    one = "# Hotels\n\n- Per night in Europe\n- Two nights\n\nSay it slowly.\n\n"
    assert document.text == f"{one}# Slide 2\n\n{TABLE}\n\n"
    assert document.pages == (0, len(one))


@pytest.mark.parametrize(
    ("modified", "created", "date"),
    [
        ("2013-12-23T23:15:00Z", "2013-12-23T23:15:00Z", None),
        ("2013-12-23T23:15:00Z", "2024-05-06T07:08:09Z", "2024-05-06"),
        ("2024-05-06T07:08:09Z", "2013-12-23T23:15:00Z", "2024-05-06"),
        ("2013-12-23T23:16:00Z", "2013-12-23T23:15:00Z", "2013-12-23"),
    ],
)
def test_the_date_of_a_template_is_none(tmp_path: Path, modified: str, created: str, date: str | None) -> None:
    times = f"<t:created>{created}</t:created><t:modified>{modified}</t:modified>"
    core = CORE.replace("<t:modified>2026-03-01T10:00:00Z</t:modified>", times)
    assert loaded(tmp_path, "a.docx", docx(core=core)).date == date
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "Hotels"
    deck.save(str(tmp_path / "a.pptx"))
    assert load_file(tmp_path / "a.pptx").date is None


def test_xlsx(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = "Limits"
    for row in (["City", None, "Limit"], [None, None, None], ["Zurich", None, 210.0]):
        sheet.append(row)
    book.create_sheet("Empty")
    book.create_sheet("More").append(["a|b", True])
    book.save(tmp_path / "a.xlsx")
    document = load_file(tmp_path / "a.xlsx")
    one = f"# Limits\n\n{TABLE}\n\n"
    assert document.text == one + "# More\n\n| a\\|b | True |\n| --- | --- |\n\n"
    assert document.pages == (0, len(one))


def test_epub(tmp_path: Path) -> None:
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>Travel</dc:title><dc:date>2026-03-01</dc:date></metadata><manifest>"
        '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        '<item id="b" href="text/b%20c.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="a" href="text/a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="n"/><itemref idref="b"/><itemref idref="a"/></spine></package>'
    )
    book = zipped(
        {
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OPS/book.opf"/></rootfiles></container>',
            "OPS/book.opf": opf,
            "OPS/nav.xhtml": "<html><body><p>Contents</p></body></html>",
            "OPS/text/a.xhtml": '<html><body><h1>Second</h1><p>Two.</p><p><a href="b.xhtml">Back</a></p></body></html>',
            "OPS/text/b c.xhtml": '<html><body><h1>First</h1><p>One.</p><p><a href="a.xhtml">On</a></p></body></html>',
        }
    )
    document = loaded(tmp_path, "a.epub", book)
    assert document.text == "# First\n\nOne.\n\nOn\n\n# Second\n\nTwo.\n\nBack"
    assert [document.text[start:end] for start, end in document.navigation] == ["On", "Back"]
    assert (document.title, document.date) == ("Travel", "2026-03-01")


@pytest.mark.parametrize("container", ["<container/>", "<container><rootfile/></container>"])
def test_an_epub_that_names_no_list_of_chapters(tmp_path: Path, container: str) -> None:
    with pytest.raises(UnreadableDocument, match="no list of its chapters; save it again"):
        loaded(tmp_path, "a.epub", zipped({"META-INF/container.xml": container}))


def math(*parts: str) -> str:
    """A paragraph of formulas, of OMML without prefixes on its tags."""
    formulas = "".join(f"<oMath>{part}</oMath>" for part in parts)
    return f'<w:p xmlns="{M}">{formulas}</w:p>'


def r(text: str) -> str:
    return f"<r><t>{text}</t></r>"


X2 = f"<sSup><e>{r('x')}</e><sup>{r('2')}</sup></sSup>"


@pytest.mark.parametrize(
    ("omml", "text"),
    [
        (X2, "x^{2}"),
        (f"<f><fPr/><num>{X2}</num><den>{r('a+b')}</den></f>", r"\frac{x^{2}}{a+b}"),
        (f"<rad><deg/><e>{r('b')}{X2}</e></rad>", r"\sqrt{bx^{2}}"),
        (f"<rad><deg>{r('3')}</deg><e>{r('b')}</e></rad>", r"\sqrt[3]{b}"),
        (
            f'<nary><naryPr><chr xmlns:m="{M}" m:val="∑"/></naryPr>'
            f"<sub>{r('i=1')}</sub><sup>{r('n')}</sup><e>{r('i')}</e></nary>",
            r"\sum_{i=1}^{n} i",
        ),
        (f"<d><e>{r('x')}</e></d>", "(x)"),
        (f"<func><fName>{r('log')}</fName><e>{r('x')}</e></func>", "log x"),
        (f"<m><mr><e>{r('1')}</e><e>{r('0')}</e></mr><mr><e>{r('0')}</e><e>{r('1')}</e></mr></m>", r"1 & 0 \\ 0 & 1"),
        (f"<sSubSup><e>{r('a')}</e><sub>{r('i')}</sub><sup>{r('2')}</sup></sSubSup>", "a_{i}^{2}"),
    ],
)
def test_formulas_of_word_are_text(tmp_path: Path, omml: str, text: str) -> None:
    document = loaded(tmp_path, "a.docx", docx(more=math(omml)))
    assert document.text.split("\n\n")[-1] == f"${text}$"


def test_a_table_of_contents_is_navigation(tmp_path: Path) -> None:
    entries = "".join(
        f'<w:p><w:hyperlink w:anchor="_Toc{n}"><w:r><w:t>Part {n}</w:t><w:tab/><w:t>{n}</w:t></w:r></w:hyperlink></w:p>'
        for n in range(1, 4)
    )
    document = loaded(tmp_path, "a.docx", docx(more=entries))
    assert [document.text[start:end].split() for start, end in document.navigation] == [
        ["Part", str(n), str(n)] for n in range(1, 4)
    ]


def test_formulas_that_follow_each_other_stay_apart(tmp_path: Path) -> None:
    assert loaded(tmp_path, "a.docx", docx(more=math(r("a=b"), r("c=d")))).text.endswith("$a=b$ $c=d$")


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"no zip", "damaged"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 ", "password"), (zipped({"x": "y"}), ".")],
)
def test_files_that_are_none_are_reported(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with FileReader(ReadLimits()) as reader, pytest.raises(UnreadableDocument, match=reason):
        reader.read(tmp_path / name)


def test_a_package_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        for number in range(11):
            package.writestr(f"{number}.xml", b"\0" * 100_000_000)
    with pytest.raises(UnreadableDocument, match="unpacked"):
        loaded(tmp_path, "a.docx", data.getvalue())


def test_office_files_are_read_under_limits(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(docx())
    with FileReader(ReadLimits()) as reader:
        assert "Hotels" in reader.read(tmp_path / "a.docx").text


def test_older_formats_say_what_to_save_as(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormat, match=r"\.docx"):
        loaded(tmp_path, "a.doc", b"x")


def test_labels_stand_above_a_table_of_a_sheet(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Reading list"], [], [None, "Of 2026"], ["Title", "Author", "Year"], ["Emma", "Austen", 1815]):
        sheet.append(row)
    data = io.BytesIO()
    book.save(data)
    assert loaded(tmp_path, "a.xlsx", data.getvalue()).text.strip().split("\n\n")[1:] == [
        "Reading list",
        "Of 2026",
        "| Title | Author | Year |\n| --- | --- | --- |\n| Emma | Austen | 1815 |",
    ]
    assert loaded(tmp_path, "a.csv", ",2025\nZurich,210\nBern,180\n").text.startswith("|  | 2025 |\n")


def test_a_chart_of_a_slide_is_a_table(tmp_path: Path) -> None:
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("2025", (1.5, 2))
    data.add_series("2026", (3, None))
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 999, 999, data)
    content = io.BytesIO()
    presentation.save(content)
    table = "|  | 2025 | 2026 |\n| --- | --- | --- |\n| East | 1.5 | 3 |\n| West | 2 |  |"
    assert table in loaded(tmp_path, "a.pptx", content.getvalue()).text


STRICT = ("http://schemas.openxmlformats.org/", "http://purl.oclc.org/ooxml/")


def strict(content: bytes) -> bytes:
    """An Office file in "Strict Open XML"."""
    kinds = ("spreadsheetml/2006/main", "presentationml/2006/main", "drawingml/2006/main", "officeDocument/2006/")
    parts = {}
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        for name in package.namelist():
            part = package.read(name).decode("latin-1")
            for kind in kinds:
                part = part.replace(STRICT[0] + kind, STRICT[1] + kind.replace("2006/", ""))
            parts[name] = part
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as package:
        for name, part in parts.items():
            package.writestr(name, part.encode("latin-1"))
    return data.getvalue()


def test_a_workbook_in_strict_form(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["City", "Limit"], ["Zurich", 210]):
        book.active.append(row)
    data = io.BytesIO()
    book.save(data)
    content = strict(data.getvalue())
    assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(content)).read("xl/workbook.xml")
    assert TABLE in loaded(tmp_path, "a.xlsx", content).text


def test_a_diagram_of_a_slide_is_a_list_and_footers_are_left_out(tmp_path: Path) -> None:
    presentation = pptx.Presentation()
    layout = presentation.slide_layouts[5]
    slide = presentation.slides.add_slide(layout)
    slide.shapes.title.text = "Who"
    for place in layout.placeholders:
        if place.placeholder_format.type in (PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER):
            slide.shapes._spTree.append(deepcopy(place._element))
            slide.shapes[-1].text_frame.text = "17 of 20"
    names = 'xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    a = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    points = "".join(f"<d:pt><d:t><a:p><a:r><a:t>{one}</a:t></a:r></a:p></d:t></d:pt>" for one in ("Head", "Deputy"))
    part = Part(
        PackURI("/ppt/diagrams/data1.xml"),
        "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml",
        slide.part.package,
        f"<d:dataModel {names} {a}><d:ptLst>{points}<d:pt/></d:ptLst></d:dataModel>".encode(),
    )
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    key = slide.part.relate_to(part, f"{relations}/diagramData")
    frame = slide.shapes.add_table(1, 1, 0, 0, 9, 9)._element
    data = frame.find(".//{*}graphicData")
    data.clear()
    data.set("uri", "http://schemas.openxmlformats.org/drawingml/2006/diagram")
    data.append(etree.fromstring(f'<d:relIds {names} xmlns:r="{relations}" r:dm="{key}"/>'))
    content = io.BytesIO()
    presentation.save(content)
    assert loaded(tmp_path, "a.pptx", content.getvalue()).text == "# Who\n\n- Head\n- Deputy\n\n"


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub"])
@pytest.mark.parametrize(
    ("parts", "real"),
    [
        ({"word/document.xml": ""}, ".docx"),
        ({"xl/workbook.xml": ""}, ".xlsx"),
        ({"ppt/presentation.xml": ""}, ".pptx"),
        ({"mimetype": "application/epub+zip"}, ".epub"),
        ({"mimetype": "application/vnd.oasis.opendocument.text"}, ".odt"),
    ],
)
def test_the_real_ending_of_a_package_is_named(tmp_path: Path, name: str, parts: dict[str, str], real: str) -> None:
    (tmp_path / name).write_bytes(zipped(parts))
    expected = "again" if name.endswith(real) else f"is a {real} file; give it that ending"
    with FileReader(ReadLimits()) as reader, pytest.raises(UnreadableDocument, match=expected):
        reader.read(tmp_path / name)
