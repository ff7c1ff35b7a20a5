"""Tables, JSON and notebooks as Markdown."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from retriever import UnreadableDocument, load_file
from retriever.types import LoadedDocument

TABLE = "| City | Limit |\n| --- | --- |\n| Zurich | 210 |"


def loaded(folder: Path, name: str, content: str) -> LoadedDocument:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return load_file(path)


@pytest.mark.parametrize(("name", "text"), [("a.csv", "City,Limit\nZurich,210\n"), ("a.adoc", ",===\na,b\n,===\n")])
def test_other_code_of_the_process_can_still_read_long_fields(tmp_path: Path, name: str, text: str) -> None:
    before = csv.field_size_limit()
    loaded(tmp_path, name, text)
    assert csv.field_size_limit() == before


def test_a_long_field_is_read(tmp_path: Path) -> None:
    long = "x" * (csv.field_size_limit() + 10)
    assert long in loaded(tmp_path, "a.csv", f"City,Limit\nZurich,{long}\n").text


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separated_values(tmp_path: Path, separator: str) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows([["City", "Limit"], ["Zurich", "210"]])
    assert loaded(tmp_path, "a.csv", text.getvalue()).text == TABLE


def test_json(tmp_path: Path) -> None:
    content = {"city": "Zurich", "limits": {"hotel": 210, "meals": [60, None]}, "open": True}
    expected = "city: Zurich\nlimits:\n- hotel: 210\n- meals:\n  - 60\n  - null\nopen: true"
    assert loaded(tmp_path, "a.json", json.dumps(content)).text == expected
    assert loaded(tmp_path, "a.jsonl", '{"a": 1}\n\n{"a": 2}\n').text == "a: 1\n\na: 2"
    with pytest.raises(UnreadableDocument, match="line 2"):
        loaded(tmp_path, "b.jsonl", '{"a": 1}\n{"a": \n')
    with pytest.raises(UnreadableDocument, match="too deep"):
        loaded(tmp_path, "deep.json", "[" * 900 + "]" * 900)


def test_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Head\n", "text"]},
        {"cell_type": "code", "source": "x = 1", "outputs": [{"text": "secret"}]},
    ]
    book = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}
    assert loaded(tmp_path, "a.ipynb", json.dumps(book)).text == "# Head\ntext\n\n```python\nx = 1\n```"
    with pytest.raises(UnreadableDocument, match="notebook"):
        loaded(tmp_path, "b.ipynb", "[]")


def test_tabs_separate_a_tsv_whatever_its_first_lines_have_more_of(tmp_path: Path) -> None:
    text = "# one, two\n" * 1000 + 'City\tLimit\nZurich\t"2""10"\n'
    assert loaded(tmp_path, "a.tsv", text).text.endswith('| City | Limit |\n| --- | --- |\n| Zurich | 2"10 |')


def test_doubled_quotes_are_one_wherever_they_begin(tmp_path: Path) -> None:
    rows = "".join(f'"Zurich, {number}",210\n' for number in range(1000))
    text = loaded(tmp_path, "a.csv", f'City,Limit\n{rows}"the ""other"", too",90\n').text
    assert text.endswith('| the "other", too | 90 |')


def test_single_quotes_are_quotes_only_where_there_are_no_double_ones(tmp_path: Path) -> None:
    rows = "City,Limit\n'Zurich, ZH',210\n'Bern, BE',90\n"
    assert "| Zurich, ZH | 210 |" in loaded(tmp_path, "a.csv", rows).text
    assert "| 'Zurich | ZH' | 210 |" in loaded(tmp_path, "a.csv", rows + '"a",1\n').text


def test_numbers_of_json_are_as_they_are_written(tmp_path: Path) -> None:
    numbers = {"a": "1.50", "b": "0.1000000000000000055", "c": "9" * 5000, "d": "1e400", "e": "-0"}
    text = ", ".join(f'"{name}": {number}' for name, number in numbers.items())
    shown = loaded(tmp_path, "a.json", f"{{{text}}}").text
    assert shown == "\n".join(f"{name}: {number}" for name, number in numbers.items())


def test_a_text_of_json_keeps_its_lines(tmp_path: Path) -> None:
    content = {"code": "if x:\n    # no heading\n\n    y()\n", "list": ["a\r\nb"], "one": " a  b\n"}
    assert loaded(tmp_path, "a.json", json.dumps(content)).text == (
        "code:\n      if x:\n          # no heading\n\n          y()\nlist:\n-\n      a\n      b\none: a b"
    )


def test_a_name_of_json_stands_in_its_line(tmp_path: Path) -> None:
    assert loaded(tmp_path, "a.json", json.dumps({"a\n# b": {"c: \nd": 1}})).text == "a # b:\n- c: d: 1"


def test_lines_of_json_in_a_json_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match=r"\.jsonl"):
        loaded(tmp_path, "a.json", '{"a": 1}\n{"a": 2}\n')


def test_a_notebook_has_the_title_of_its_first_heading(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": "# no title"}, {"cell_type": "markdown", "source": "# The title\n\nText."}]
    assert loaded(tmp_path, "a.ipynb", json.dumps({"cells": cells, "metadata": {}})).title == "The title"
    assert loaded(tmp_path, "a.ipynb", json.dumps({"cells": cells[:1], "metadata": None})).title == "a"


def test_code_with_a_fence_in_it_keeps_its_own(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": 's = """\n```\n"""'}]
    assert loaded(tmp_path, "a.ipynb", json.dumps({"cells": cells})).text == '````\ns = """\n```\n"""\n````'


def test_a_notebook_of_format_3(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Limits"]},
        {"cell_type": "markdown", "source": ["Of hotels."]},
        {"cell_type": "code", "language": "python", "input": ["x = 1\n", "y = 2"], "outputs": []},
    ]
    book = {"nbformat": 3, "metadata": {"name": "Travel"}, "worksheets": [{"cells": cells}]}
    document = loaded(tmp_path, "a.ipynb", json.dumps(book))
    assert document.text == "## Limits\n\nOf hotels.\n\n```python\nx = 1\ny = 2\n```"
    assert document.title == "Travel"
