"""A question that retrieves the middle of a long table: the prompt shows its header row above the rows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from rag_service.prompting.prompt import passage_segment
from rag_service.prompting.template import Templates
from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

HEADER = ("Name", "Desk", "Phone")
ROWS = [(f"Person {number}", f"{number}A", f"555 {number:04}") for number in range(200)]


@pytest.mark.parametrize("name", ["staff.md", "staff.csv", "staff.html"])
def test_the_prompt_shows_the_header_row_of_a_table(tmp_path: Path, name: str) -> None:
    rows = [HEADER, *ROWS]
    if name.endswith(".csv"):
        content = "\n".join(",".join(row) for row in rows)
    elif name.endswith(".html"):
        content = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        content = f"<table>{content}</table>"
    else:
        content = "\n".join(f"| {' | '.join(row)} |" for row in (HEADER, ("---",) * 3, *ROWS))
    (tmp_path / name).write_text(content)
    collection = Library(tmp_path / "data", HashEmbedder()).create("docs")
    (document,) = collection.ingest([SourceDocument(name=name, path=tmp_path / name)]).added
    (passage,) = collection.search("Person 150", top_k=1, mode="lexical")
    assert "| Person 150 | 150A |" in passage.text
    assert passage.text == collection.get(document).text[passage.source_start : passage.source_end]
    lines = passage_segment(asdict(passage), Templates().of("Where does person 150 sit?")).text.splitlines()
    above = next(number for number, line in enumerate(lines) if line.startswith("| Person"))
    assert "> Name | Desk | Phone" in lines[above - 1]
    assert collection.search("Person 150 phone", top_k=1, mode="lexical")[0].chunk_id == passage.chunk_id
