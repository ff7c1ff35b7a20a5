"""Titles of plain texts: their first line, where it looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever.parsing.formats import load_file, plain_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Rules for volunteers\n\nThe first rule.", "Rules for volunteers"),
        ("\n\n  Afspraken 2026 \n \nNieuwe", "Afspraken 2026"),
        ("Title\n=====\n\nText", "Title"),
        ("Title\n=====\nText", "Title"),
        ("章程\n\n第一条", "章程"),
        ("Dear John,\n\nthank you.", None),
        ("A sentence.\n\nMore.", None),
        ("2026-11-03 started\n2026-11-04 ended", None),
        ("42\n\nthe answer", None),
        ("- one\n\n- two", None),
        ("Alone\n\n", None),
        ("x" * 81 + "\n\nText", None),
        ("", None),
    ],
)
def test_a_first_line_that_looks_like_a_title_is_one(text: str, title: str | None) -> None:
    assert plain_title(text) == title


def test_else_the_file_s_name_is(tmp_path: Path) -> None:
    for text, title in (("Rules\n\nNone.", "Rules"), ("No rules. None.", "notes")):
        (tmp_path / "notes.txt").write_text(text)
        assert load_file(tmp_path / "notes.txt").title == title


@pytest.mark.parametrize("text", ["a" * 10**6, "\n" * 10**6 + ".", "a " * 10**5 + "\n\nb", "=" * 10**6])
def test_long_lines_are_no_titles(text: str) -> None:
    assert plain_title(text) is None
