"""HTML to readable text."""

from __future__ import annotations

import pytest

from retriever.errors import UnreadableDocument
from retriever.parsing.html_depth import too_complex
from retriever.parsing.html_text import read_html


def text_of(html: str) -> str:
    return read_html(html.encode(), "stem").text


def test_structure_becomes_markdown() -> None:
    page = """<html><head><title> A  page </title><style>p{}</style></head><body>
      <nav><a href=/>Home</a></nav><h1>Top <em>title</em></h1>
      <p>One <b>bo</b>ld
      line.<br>Two.</p><ul><li>first<ul><li>inner</li></ul></li><li>second</li></ul>
      <ol><li>one</li><li><p>two</p><p>more</p></li></ol>
      <pre>def f():\n    return 1</pre><script>alert(1)</script>loose text</body></html>"""
    loaded = read_html(page.encode(), "stem")
    assert loaded.title == "A page"
    assert loaded.kind == "markdown"
    assert loaded.text == (
        "# Top title\n\nOne bold line.\nTwo.\n\n- first\n  - inner\n- second\n\n"
        "1. one\n2. two\n   more\n\n```\ndef f():\n    return 1\n```\n\nloose text"
    )


def test_tables_become_rows() -> None:
    page = "<table><caption>Cap</caption><tr><th>A<th>B<tr><td>x|y<td>1<br>2<tr><td>only</table>"
    assert text_of(page) == "Cap\n\n| A | B |\n| --- | --- |\n| x\\|y | 1 2 |\n| only |  |"


def test_a_layout_table_is_read_as_text() -> None:
    page = "<table><tr><td><h2>Head</h2><p>Body</p></td><td><table><tr><td>a<td>b</table></td></tr></table>"
    assert text_of(page) == "## Head\n\nBody\n\n| a | b |\n| --- | --- |"


def test_hidden_and_navigation_parts_are_dropped_and_main_is_preferred() -> None:
    page = """<body><div role=navigation>menu</div><div>around</div>
      <main><p hidden>no</p><p style="display: none">no</p><p aria-hidden=true>no</p><p>yes</p></main></body>"""
    assert text_of(page) == "yes"
    assert text_of("<body><main> </main><p>outside</p></body>") == "outside"


def test_title_falls_back_to_the_first_heading_and_then_to_the_name() -> None:
    assert read_html(b"<h1>Heading</h1>", "stem").title == "Heading"
    assert read_html(b"<p>text</p>", "stem").title == "stem"


def test_declared_encoding_is_used() -> None:
    page = '<meta charset="iso-8859-7"><p>Ελλάδα</p>'.encode("iso8859-7")
    assert read_html(page, "stem").text == "Ελλάδα"


def test_backticks_in_code_get_a_longer_fence() -> None:
    assert text_of("<pre>```\nx\n```</pre>") == "````\n```\nx\n```\n````"


@pytest.mark.parametrize("page", ["<script>x</script>", "<body></body>", "<nav>only a menu</nav>"])
def test_a_page_without_text_is_reported(page: str) -> None:
    with pytest.raises(UnreadableDocument, match="no text"):
        read_html(page.encode(), "stem")


def test_depth_costs_no_stack() -> None:
    assert text_of("<div>" * 5000 + "deep") == "deep"


MANY = 300_000


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * MANY,
        "<ul><li>" * MANY,
        "<table><tr><td>" * MANY,
        "<b>" * MANY,
        "<span>" * MANY + "</p>" * MANY,
        "<svg>" + "<div/>" * MANY,
        "<svg><desc>" + "<section/>" * MANY,
        "<p " + " ".join(f"a{number}=1" for number in range(MANY)) + ">x",
        "<p x=y' " + " ".join(f"a{number}" for number in range(MANY)) + ">x",
        "<div><table></div></table>" * MANY,
        "<div><object></div></object>" * MANY,
        "<select>" + "<option>a</option>" * MANY,
        "<select>" + "<optgroup>" * MANY,
    ],
)
def test_a_page_that_parsers_take_for_ever_with_is_refused_before(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.parsing.html_text.LexborHTMLParser", lambda page: pytest.fail("it was parsed"))
    with pytest.raises(UnreadableDocument, match=r"more than (6,000 deep|5,000 attributes|10,000 options)"):
        read_html(page.encode(), "page")


@pytest.mark.parametrize(
    "page",
    [
        "<p>x" * MANY,
        "<ul>" + "<li>x" * MANY,
        "<table>" + "<tr><td>x" * MANY,
        "<div>x</div>" * MANY,
        "<div>x<br>" * 900,
        "x" + "<div><span>x</div>" * MANY,
        "x<svg>" + "<path d='M0 0'/>" * MANY + "</svg>",
        "x<script>" + "'<div>'" * MANY + "</script>",
        "x<!--" + "<div>" * MANY + "-->",
        "x" + "<img alt='a'>" * MANY,
        "<img alt='" + "many words " * MANY + "'>x",
        "<div data-page='" + '{"a": 1, "b": "c"} ' * MANY + "'>x</div>",
        "<table>" + "<tr><td><font color=red>x" * MANY,
        "<a name=x>x<br>" * MANY,
        "<select><option>a<option>b</select>" * MANY,
        "<!--" * MANY,
        "<" * MANY,
        "</div>" * MANY,
    ],
)
def test_long_pages_are_not_complex(page: str) -> None:
    assert too_complex(page) is None


def test_rows_beside_a_very_wide_one_are_not_filled_up() -> None:
    html = "<table><tr>" + "<td>x" * 2000 + "<tr><td>y" * 2000 + "</table>"
    assert len(text_of(html)) < 40 * len(html)


def test_cells_over_several_rows_and_columns_stand_in_their_columns() -> None:
    rows = (
        '<tr><th>Country</th><th>City</th><th colspan="2">Limits</th><th>From</th></tr>'
        '<tr><td rowspan="2">Switzerland</td><td>Zurich</td><td>210</td><td>CHF</td><td rowspan=99999>May</td></tr>'
        "<tr><td>Bern</td><td>180</td><td>CHF</td></tr>"
        '<tr><td>Japan</td><td colspan="3">none</td></tr>'
    )
    assert read_html(f"<table>{rows}</table>".encode(), "stem").text.split("\n") == [
        "| Country | City | Limits |  | From |",
        "| --- | --- | --- | --- | --- |",
        "| Switzerland | Zurich | 210 | CHF | May |",
        "| Switzerland | Bern | 180 | CHF | May |",
        "| Japan | none |  |  | May |",
    ]


def test_spans_do_not_swell_a_page() -> None:
    row = f"<tr>{'<td rowspan=60000 colspan=60000>x</td>' * 50}</tr>"
    text = read_html(f"<table>{row}{'<tr><td></td></tr>' * 2000}<tr><td>end</td></tr></table>".encode(), "stem").text
    assert len(text) < 200_000


@pytest.mark.parametrize(
    ("mathml", "text"),
    [
        ("<mfrac><mi>a</mi><msup><mi>b</mi><mn>2</mn></msup></mfrac>", r"\frac{a}{b^{2}}"),
        ("<msub><mi>x</mi><mi>i</mi></msub><mo>=</mo><msqrt><mn>2</mn></msqrt>", r"x_{i} = \sqrt{2}"),
        (
            "<mtable><mtr><mtd><mn>1</mn></mtd><mtd></mtd></mtr><mtr><mtd><mn>0</mn></mtd><mtd><mn>1</mn></mtd></mtr>"
            "</mtable>",
            r"1 & \\ 0 & 1",
        ),
        ('<semantics><mi>q</mi><annotation encoding="application/x-tex">x^2</annotation></semantics>', "x^2"),
    ],
)
def test_formulas_are_text(mathml: str, text: str) -> None:
    page = f"<p>See <math>{mathml}</math>.</p><table><tr><td>A</td><td><math>{mathml}</math></td></tr></table>"
    assert text_of(page).startswith(f"See ${text}$.\n\n| A | ${text}$ |\n")


def test_a_numbered_list_keeps_the_number_that_it_starts_with() -> None:
    page = '<p>On:</p><ol start="3"><li>c</li><li>d</li></ol><ol start="x"><li>a</li></ol>'
    assert text_of(page) == "On:\n\n3. c\n4. d\n\n1. a"
