"""reStructuredText and AsciiDoc as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import UnreadableDocument, load_file


def rst(folder: Path, source: str) -> str:
    (folder / "a.rst").write_text(source, encoding="utf-8")
    return load_file(folder / "a.rst").text


def adoc(folder: Path, source: str) -> str:
    (folder / "a.adoc").write_text(source, encoding="utf-8")
    return load_file(folder / "a.adoc").text


def test_rst(tmp_path: Path) -> None:
    source = (
        "Hotels\n======\n\nPer *night*.\n\n- one\n- two\n\n.. include:: /etc/passwd\n\n.. code:: python\n\n   x = 1\n"
    )
    assert rst(tmp_path, source) == "# Hotels\n\nPer night.\n\n- one\n- two\n\n```\nx = 1\n```"


def test_what_sphinx_adds_to_rst_keeps_its_text(tmp_path: Path) -> None:
    source = (
        "Limits\n======\n\nSee :ref:`the list <limits>` and :py:class:`~travel.Hotel`.\n\n"
        ".. toctree::\n   :maxdepth: 2\n\n   install\n\n"
        ".. py:function:: limit(*cities)\n\n   The limit.\n\n   .. versionadded:: 2.1 By :func:`more`.\n\n"
        ".. only:: html\n\n   Online.\n\n.. confval:: city\n   :type: str\n\n   Where to.\n"
    )
    assert rst(tmp_path, source) == (
        "# Limits\n\nSee the list and Hotel.\n\nlimit(*cities)\n\nThe limit.\n\nAdded in version 2.1 By more.\n\n"
        "Online.\n\ncity\n\nWhere to."
    )


def test_code_and_formulas_of_sphinx_with_any_option(tmp_path: Path) -> None:
    source = (
        ".. code-block:: python\n   :caption: a.py\n   :emphasize-lines: 2\n\n   x = 1\n\n"
        ".. math::\n   :label: one\n\n   a^2\n"
    )
    assert rst(tmp_path, source) == "a.py\n\n```\nx = 1\n```\n\n```\na^2\n```"


def test_a_directive_with_an_error_is_shown_as_it_was_written(tmp_path: Path) -> None:
    text = rst(tmp_path, ".. image:: map.png\n   :sort: of\n\nEnd.\n")
    assert text == "```\n.. image:: map.png\n   :sort: of\n```\n\nEnd."


def test_long_lines_of_rst_are_read_and_longer_ones_are_named(tmp_path: Path) -> None:
    words = "word " * 5000
    assert rst(tmp_path, f"Title\n=====\n\n{words}\n").endswith("word word")
    with pytest.raises(UnreadableDocument, match="100,000 characters; break it"):
        rst(tmp_path, "word " * 25_000)


def test_asciidoc(tmp_path: Path) -> None:
    source = (
        "= Hotels\n:toc:\n\n== Limits\n\nSee https://example.org[the list].\n\n* one\n** two\n\n"
        "[source,python]\n----\nx = 1\n----\n"
    )
    assert adoc(tmp_path, source) == (
        "# Hotels\n\n## Limits\n\nSee the list.\n\n- one\n  - two\n\n```python\nx = 1\n```"
    )


def test_titles_of_asciidoc_over_two_lines_begin_no_code(tmp_path: Path) -> None:
    source = "travel(1)\n=========\n\nLIMITS\n------\nOf hotels.\n\n----\nx = 1\n----\n\nMore\n~~~~\n"
    assert adoc(tmp_path, source) == "# travel(1)\n\n## LIMITS\n\nOf hotels.\n\n```\nx = 1\n```\n\n### More"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("See <<limits,the list>> or xref:a.adoc#b[that].", "See the list or that."),
        ("A limitfootnote:[In 2026.] holds.", "A limit (In 2026.) holds."),
        ("Press kbd:[Ctrl+C], menu:File[Save > As].", "Press Ctrl+C, File > Save > As."),
        ("{url}/list[The list], {none}[no list].", "The list, no list."),
        ("{name} costs {price}.", "Hotel Emma costs {price}."),
        ("stem:[a^2] of [.red]#text#[[here]]", "$a^2$ of text"),
        ('link:a.html["One, two",role=x] https://a.org[new^]', "One, two new"),
        ("One +", "One"),
    ],
)
def test_marks_within_a_line_of_asciidoc(tmp_path: Path, line: str, text: str) -> None:
    names = ":first: Emma\n:name: Hotel {first}\n:url: https://example.org\n\n"
    assert adoc(tmp_path, names + line) == text


def test_attributes_of_asciidoc_that_name_each_other_end(tmp_path: Path) -> None:
    assert len(adoc(tmp_path, f":a: {'{b}' * 50}\n:b: {'{a}' * 50}\n\nSee {'{a}' * 50}\n")) < 100_000


def test_conditions_of_asciidoc(tmp_path: Path) -> None:
    source = (
        ":web:\n\nifdef::web[]\nOnline.\nendif::[]\nifndef::web[]\nOn paper.\nendif::[]\n"
        "ifdef::pdf[]\nifdef::web[]\nBoth.\nendif::[]\nendif::[]\nifdef::web[One line.]\n////\nNo.\n////\n// No.\n"
    )
    assert adoc(tmp_path, source).split() == ["Online.", "One", "line."]


def test_lists_of_asciidoc(tmp_path: Path) -> None:
    source = (
        ". one\n.. inner\n+\n----\nx\n----\n. two\n* deep\n\n//-\n\n* other\n\nCity:: Where to.\nDay::\n  When.\n\n"
        "After.\n\n. new\n"
    )
    assert adoc(tmp_path, source) == (
        "1. one\n   1. inner\n\n```\nx\n```\n\n2. two\n   - deep\n\n- other\n\nCity\n\nWhere to.\n\nDay\n\nWhen.\n\n"
        "After.\n\n1. new"
    )


def test_blocks_of_asciidoc(tmp_path: Path) -> None:
    source = (
        "[WARNING]\n.Take care\n====\nHot.\n====\n\n[quote, Emma]\n____\nSo it is.\n____\n\n [literal]\n\n"
        "++++\n<p>Raw <b>text</b></p>\n++++\n"
    )
    assert adoc(tmp_path, source) == ("Take care\n\nWARNING:\n\nHot.\n\nSo it is.\n\n```\n[literal]\n```\n\nRaw text")


def test_a_table_of_asciidoc(tmp_path: Path) -> None:
    source = """= Travel

.Limits
[cols="1,1"]
|===
|City |Limit

|Zurich
|210
|Bern |180
|===

image::map.png[A map, width=20]
"""
    table = "| City | Limit |\n| --- | --- |\n| Zurich | 210 |\n| Bern | 180 |"
    assert adoc(tmp_path, source) == f"# Travel\n\nLimits\n\n{table}\n\nA map"


def test_cells_of_asciidoc_over_columns_and_rows(tmp_path: Path) -> None:
    source = "|===\n|City |Day |Limit\n\n.2+|Zurich |1 a|210\n|2 |180 \\| 190\n2+|Bern |90\n2*|x |y\n|===\n"
    assert adoc(tmp_path, source) == (
        "| City | Day | Limit |\n| --- | --- | --- |\n| Zurich | 1 | 210 |\n| Zurich | 2 | 180 \\| 190 |\n"
        "| Bern |  | 90 |\n| x | x | y |"
    )


def test_separated_values_of_asciidoc(tmp_path: Path) -> None:
    table = "| City | Limit |\n| --- | --- |\n| Zurich, ZH | 210 |"
    assert adoc(tmp_path, ',===\nCity,Limit\n"Zurich, ZH",210\n,===\n') == table
