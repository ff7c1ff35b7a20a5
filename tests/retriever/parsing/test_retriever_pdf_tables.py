"""Ruled tables of PDFs become Markdown's; whatever lines do not divide into cells stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from fpdf import FPDF

from retriever.chunking.chunker import chunk
from retriever.parsing import pdf_tables
from retriever.parsing.pdf_text import read_pdf

ROWS = [["Course", "Hours", "Price"], ["A Studio", "12", "30 euros"], ["B Mobile", "8", "25 euros"]]
TABLE = """| Course | Hours | Price |
| --- | --- | --- |
| A Studio | 12 | 30 euros |
| B Mobile | 8 | 25 euros |"""
LEFTS, TOPS = (20, 70, 110, 160), (40, 50, 60, 70)


def page(draw: Callable[[FPDF], None], style: str = "") -> str:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", style, size=11)
    draw(pdf)
    return read_pdf(bytes(pdf.output()), "stem").text


def write(pdf: FPDF, rows: list[list[str]] = ROWS) -> None:
    pdf.text(20, 30, "What courses cost.")
    for row, top in zip(rows, TOPS, strict=False):
        for cell, left in zip(row, LEFTS, strict=False):
            pdf.text(left + 2, top + 7, cell)
    pdf.text(20, 90, "Others pay more.")


def by_lines(pdf: FPDF) -> None:
    for top in TOPS:
        pdf.line(LEFTS[0], top, LEFTS[-1], top)
    for left in LEFTS:
        pdf.line(left, TOPS[0], left, TOPS[-1])


def by_short_lines(pdf: FPDF) -> None:
    for top in TOPS:
        for left, right in pairwise(LEFTS):
            pdf.line(left, top, right, top)
    for left in LEFTS:
        for top, bottom in pairwise(TOPS):
            pdf.line(left, top, left, bottom)


def by_cells(pdf: FPDF) -> None:
    for top, bottom in pairwise(TOPS):
        for left, right in pairwise(LEFTS):
            pdf.rect(left, top, right - left, bottom - top)


def by_bars(pdf: FPDF) -> None:
    for top in TOPS:
        pdf.rect(LEFTS[0], top, LEFTS[-1] - LEFTS[0], 0.3, style="F")
    for left in LEFTS:
        pdf.rect(left, TOPS[0], 0.3, TOPS[-1] - TOPS[0], style="F")


def without_sides(pdf: FPDF) -> None:
    for top in TOPS:
        pdf.line(LEFTS[0], top, LEFTS[-1], top)
    for left in LEFTS[1:-1]:
        pdf.line(left, TOPS[0], left, TOPS[-1])


@pytest.mark.parametrize("rules", [by_lines, by_short_lines, by_cells, by_bars, without_sides])
def test_lines_of_any_kind_make_a_table(rules: Callable[[FPDF], None]) -> None:
    def draw(pdf: FPDF) -> None:
        rules(pdf)
        write(pdf)

    assert page(draw) == f"What courses cost.\n\n{TABLE}\n\nOthers pay more."


def test_words_that_run_over_lines_stay_in_their_cell() -> None:
    def draw(pdf: FPDF) -> None:
        pdf.multi_cell(0, text="Before.", new_x="LMARGIN", new_y="NEXT")
        with pdf.table(col_widths=(40, 60, 60)) as table:
            for row in [*ROWS, ["Measurement of the deviation of the frequency and more", "yearly", "240 euros"]]:
                table.row(row)
        pdf.multi_cell(0, text="After.")

    text = page(draw)
    assert "| Measurement of the deviation of the frequency and more | yearly | 240 euros |" in text
    assert text.startswith("Before.\n\n| Course |")
    assert text.endswith("|\n\nAfter.")


def test_a_bold_header_is_no_heading_of_the_document() -> None:
    def draw(pdf: FPDF) -> None:
        pdf.multi_cell(0, text="Long enough to be the text. " * 20, new_x="LMARGIN", new_y="NEXT")
        with pdf.table() as table:
            for row in ROWS:
                table.row(row)

    assert f"\n\n{TABLE}" in page(draw)


def test_a_cell_over_several_columns_stands_in_the_first() -> None:
    def draw(pdf: FPDF) -> None:
        for top in TOPS:
            pdf.line(LEFTS[0], top, LEFTS[-1], top)
        for left in (LEFTS[0], LEFTS[-1]):
            pdf.line(left, TOPS[0], left, TOPS[-1])
        for left in LEFTS[1:-1]:
            pdf.line(left, TOPS[0], left, TOPS[2])
        write(pdf, [*ROWS[:2], ["C begins again next year in the autumn"]])

    assert "| A Studio | 12 | 30 euros |\n| C begins again next year in the autumn |  |  |" in page(draw)


def test_a_long_table_is_divided_between_rows_with_its_header_above() -> None:
    def draw(pdf: FPDF) -> None:
        with pdf.table() as table:
            for row in [ROWS[0], *([f"Course {n}", str(n), f"{n} euros"] for n in range(40))]:
                table.row(row)

    text = page(draw)
    parts = chunk(text, "plain", (0,), target=300, maximum=400)
    assert len(parts) > 2
    for part in parts:
        assert part.text.startswith(TABLE.partition("\n")[0]) or part.heading == ("Course | Hours | Price",)


@pytest.mark.parametrize("what", ["a frame", "two columns", "a ruled list"])
def test_other_lines_make_no_table(what: str) -> None:
    def draw(pdf: FPDF, lines: bool = True) -> None:
        pdf.set_font("Helvetica", size=11)
        if what == "a frame":
            write(pdf)
            if lines:
                pdf.rect(10, 10, 180, 200)
        elif what == "two columns":
            for left in (15, 110):
                pdf.set_xy(left, 30)
                pdf.multi_cell(80, text="A page in two columns with a lot to say about everything. " * 20)
            if lines:
                pdf.rect(10, 10, 190, 260)
                pdf.line(105, 10, 105, 270)
                pdf.line(10, 20, 200, 20)
        else:
            write(pdf)
            for top in TOPS if lines else ():
                pdf.line(LEFTS[0], top, LEFTS[-1], top)

    assert page(draw) == page(lambda pdf: draw(pdf, lines=False))


def test_a_table_of_whose_words_one_is_in_no_cell_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(pdf: FPDF) -> None:
        by_lines(pdf)
        write(pdf)

    cells = pdf_tables.Grid.cells
    monkeypatch.setattr(pdf_tables.Grid, "cells", lambda *given: [[*line[:2], ""] for line in cells(*given)])
    assert (
        page(draw)
        == "What courses cost.\nCourse Hours Price\nA Studio 12 30 euros\nB Mobile 8 25 euros\nOthers pay more."
    )


def test_words_that_run_over_a_line_are_not_torn() -> None:
    def draw(pdf: FPDF, lines: bool = True) -> None:
        if lines:
            by_lines(pdf)
        write(pdf, [ROWS[0], ["Vergaderruimten van de vereniging", "", "x"], ROWS[2]])

    assert page(draw) == page(lambda pdf: draw(pdf, lines=False))


def test_a_hyphen_at_a_cells_end_stays() -> None:
    def draw(pdf: FPDF) -> None:
        with pdf.table() as table:
            for row in [["Name", "Grade"], ["Ann", "A-"], ["Bob", "b-"]]:
                table.row(row)

    assert page(draw) == "| Name | Grade |\n| --- | --- |\n| Ann | A- |\n| Bob | b- |"


def test_a_bookmark_of_a_row_leaves_the_table_whole() -> None:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=11)
    pdf.start_section("Prices")
    pdf.multi_cell(0, text="Prices", new_x="LMARGIN", new_y="NEXT")
    pdf.start_section("Course Hours Price")
    with pdf.table() as table:
        for row in ROWS:
            table.row(row)
    assert TABLE in read_pdf(bytes(pdf.output()), "stem").text


def test_a_drawing_of_many_lines_takes_little_time_and_makes_no_table() -> None:
    """By counts: what is too much is not looked at."""
    steps = [(10 + n * 0.2, 10 + n * 0.25) for n in range(900)]

    def draw(pdf: FPDF) -> None:
        for (x, y), (further, lower) in pairwise(steps):
            pdf.line(x, y, further, y)
            pdf.line(further, y, further, lower)
        write(pdf)

    assert "|" not in page(draw)


def test_pages_behind_the_limit_of_a_document_keep_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_tables, "WORK", 2500)

    def draw(pdf: FPDF) -> None:
        for number in range(3):
            if number:
                pdf.add_page()
            by_lines(pdf)
            write(pdf)

    first, second, third = page(draw).split("Others pay more.")[:3]
    assert TABLE in first
    assert TABLE in second
    assert "|" not in third


def test_the_first_heading_is_the_title_where_the_file_has_none() -> None:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=20)
    pdf.multi_cell(0, text="Training handbook", new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Helvetica", size=11)
    pdf.multi_cell(0, text="Long enough to be the text. " * 20)
    assert read_pdf(bytes(pdf.output()), "stem").title == "Training handbook"
