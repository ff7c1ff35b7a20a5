"""A PDF's table that goes on on the next page has the names of its columns there, too; other tables have their own."""

from __future__ import annotations

import pytest
from fpdf import FPDF

from retriever.parsing.pdf_continued import Continued
from retriever.parsing.pdf_text import read_pdf

NAMES = ["Course", "Hours", "Price"]
FIRST = [NAMES, ["A Studio", "12", "30 euros"], ["B Mobile", "8", "25 euros"]]
MORE = [["C Live", "16", "45 euros"], ["D Print", "4", "12 euros"]]
LEFTS = (20, 70, 110, 160)
HEAD, FOOT = "Courses of Radio Oost", "Radio Oost, page {} of 3"


def pages(*tables: list[list[str]], between: str = "", lefts: tuple[int, ...] = LEFTS) -> list[str]:
    """The texts of pages with a table each; `between` is above all but the first."""
    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    for number, rows in enumerate(tables, 1):
        pdf.add_page()
        pdf.text(20, 15, HEAD)
        if between and number > 1:
            pdf.text(20, 25, between)
        columns = lefts if number > 1 else LEFTS
        for row, cells in enumerate(rows):
            for cell, left, right in zip(cells, columns, columns[1:], strict=False):
                pdf.rect(left, 30 + 10 * row, right - left, 10)
                pdf.text(left + 2, 37 + 10 * row, cell)
        pdf.text(20, 280, FOOT.format(number))
    document = read_pdf(bytes(pdf.output()), "stem")
    starts = document.pages or (0,)
    return [document.text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def first_row(text: str) -> str:
    return next(line for line in text.splitlines() if "|" in line)


def test_rows_of_a_next_page_stand_below_the_names_of_their_columns() -> None:
    texts = pages(FIRST, MORE, [["E Sound", "2", "9 euros"], ["F Edit", "3", "11 euros"]])
    assert [first_row(text) for text in texts] == ["| Course | Hours | Price |"] * 3
    assert "| C Live | 16 | 45 euros |" in texts[1]
    assert "| F Edit | 3 | 11 euros |" in texts[2]


def test_one_row_left_for_the_next_page_is_a_row() -> None:
    _, text = pages(FIRST, MORE[:1])
    assert "| Course | Hours | Price |\n| --- | --- | --- |\n| C Live | 16 | 45 euros |" in text


def test_one_framed_row_alone_is_text() -> None:
    (text,) = pages([["C Live", "16", "45 euros"]])
    assert "|" not in text


@pytest.mark.parametrize(
    ("rows", "between", "lefts"),
    [
        (MORE, "What others pay", LEFTS),
        (MORE, "", (20, 60, 110, 160)),
        (MORE, "", (20, 70, 110, 160, 190)),
        ([["Room", "Seats", "Rent"], ["Blue", "8", "25 euros"]], "", LEFTS),
        ([NAMES, *MORE], "", LEFTS),
        ([["Room", "Caretaker", "Floor"], ["Blue", "Ann", "Attic"]], "", LEFTS),
    ],
)
def test_another_table_keeps_its_own_first_row(rows: list[list[str]], between: str, lefts: tuple[int, ...]) -> None:
    rows = [[*row, "x"][: len(lefts) - 1] for row in rows]
    _, text = pages(FIRST, rows, between=between, lefts=lefts)
    assert first_row(text) == "| " + " | ".join(rows[0]) + " |"
    assert text.count("| Course |") == (rows[0][0] == "Course")


def test_text_below_a_table_ends_it() -> None:
    ends = Continued()
    ends.turn("x\nMembers pay less.")
    ends.headed(FIRST, LEFTS, "", "Members pay less.")
    ends.turn("y")
    assert ends.headed(MORE, LEFTS, "", "") == MORE
    ends.turn("z")
    assert list(ends.headed(MORE[1:], LEFTS, "", "")) == [MORE[0], MORE[1]]
