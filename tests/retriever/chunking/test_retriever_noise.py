"""Noise: what is not indexed, and what looks like it and is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retriever import Library, SourceDocument
from retriever.chunking.chunker import chunk
from retriever.chunking.noise import worth_indexing
from retriever.parsing.html_text import read_html
from retriever.types import Chunk, TextKind
from tests.support.hash_embedder import HashEmbedder

BODY = "Members of staff may work from home on two days a week, after talking to their manager. " * 8


def indexed(noise: str, kind: TextKind = "markdown") -> list[str]:
    """The indexed chunks of a document that has `noise` as a page of its own after other text."""
    text = f"{BODY}\n\n{noise}"
    pages = (0, len(BODY) + 2)
    parts = chunk(text, "plain", pages) if kind == "plain" else chunk(BODY) + _at(chunk(noise), len(BODY) + 2)
    return [part.text for part in worth_indexing(text, parts, kind) if part.start > len(BODY)]


def _at(parts: list[Chunk], offset: int) -> list[Chunk]:
    return [replace(part, start=part.start + offset, end=part.end + offset) for part in parts]


@pytest.mark.parametrize(
    "noise",
    [
        "<!-- Give the sources of this measure here, with a link for each. -->",
        "## Measures { data-search-exclude }\n\n<!-- list_measures requirement/aia-05 no-search -->",
        '## See also\n\n[`SINTER`](../commands/sinter) | [`SINTERSTORE`]({{< relref "commands/sinterstore" >}})',
        "- [Home](/)\n- [Products](/products)\n- [About us](/about)\n- [Contact](/contact)",
        "[Skip to content](#content)",
        "* [1. Introduction](#introduction)\n  * [1.1 Scope](#scope)\n* [2. Definitions](#definitions)",
        "</div>\n</section>",
        "{{< /multitabs >}}",
        "///",
        '<img src="/img/debugging/image02.png">',
    ],
)
def test_noise_is_not_indexed(noise: str) -> None:
    assert indexed(noise) == []


@pytest.mark.parametrize(
    "noise",
    [
        "•••••",
        "•\n•\n•\no\no",
        "1.\n2.\n3.",
        "Preface ........ iii\n1 Scope . . . . . . . 1\n2 Definitions ……… 4\n3 Duties ____ 12",
    ],
)
def test_noise_of_pages_is_not_indexed(noise: str) -> None:
    assert indexed(noise, "plain") == []


@pytest.mark.parametrize(
    "meant",
    [
        "42",
        "Opens at 9.",
        "## 0.41.0 (2019-10-07)",
        "See [the leave policy](leave.md) for the days that count.",
        "## Sources\n\n- [Article 6(4) AI Act](https://eur-lex.europa.eu/eli/reg/2024/1689#6)\n"
        "- [Article 49(2) AI Act](https://eur-lex.europa.eu/eli/reg/2024/1689#49)",
        "- Water: 0 °C\n- Iron: 1538 °C\n- Gold: 1064 °C",
        "```html\n<!-- the menu -->\n<nav></nav>\n```",
        "```\n{{< /multitabs >}}\n```",
        "| a | b |\n|---|---|\n| [x](y) | [z](w) |",
        "Begin a comment with `<!--`.\n\nEverything after it is hidden, until `-->` ends it.",
        "- Paris\n- Rome\n- Delft",
    ],
)
def test_what_says_something_is_indexed(meant: str) -> None:
    assert indexed(meant) == [meant]


@pytest.mark.parametrize(
    "meant", ["Total: 12,50 ....... EUR", "Wait ...... 3\nThen press the button and read the display."]
)
def test_dots_alone_make_no_table_of_contents(meant: str) -> None:
    assert indexed(meant, "plain") == [meant]


def test_a_comment_over_several_chunks_is_left_out_and_one_never_closed_is_text() -> None:
    comment = "<!--\n" + "\n\n".join(f"Note number {n} to whoever writes this page. " * 9 for n in range(9)) + "\n-->"
    text = f"{BODY}\n\n{comment}\n\nThe end."
    assert len(chunk(text)) > 4
    kept = "".join(part.text for part in worth_indexing(text, chunk(text), "markdown"))
    assert "Note number 4" not in kept
    assert "The end." in kept
    unclosed = text.replace("-->", "")
    assert "Note number 4" in "".join(part.text for part in worth_indexing(unclosed, chunk(unclosed), "markdown"))


def test_a_heading_is_left_out_only_where_the_next_chunk_repeats_it() -> None:
    long = "One line of this item that fills a chunk. " * 40
    text = f"# Releases\n\n## 0.41.0\n\n{long}\n\n## 0.40.0 (2019-10-07)"
    kept = worth_indexing(text, chunk(text), "markdown")
    assert "## 0.40.0 (2019-10-07)" in kept[-1].text
    assert all(part.ordinal == number for number, part in enumerate(kept))
    assert all(part.text == text[part.start : part.end] for part in kept)


def test_a_document_of_links_alone_is_indexed() -> None:
    text = "# Sitemap\n\n- [Home](/)\n- [Contact](/contact)"
    assert [part.text for part in worth_indexing(text, chunk(text), "markdown")] == [text]


def test_links_of_a_web_page_are_navigation_where_they_lead_within_the_site() -> None:
    menu = "".join(f'<li><a href="/w/{n}">Topic number {n}</a></li>' for n in range(60))
    languages = '<li><a href="https://nl.example.org/" hreflang="nl">Nederlands</a></li>' * 60
    sources = "".join(f'<li><a href="https://law.example/{n}">Article {n} of the Act</a></li>' for n in range(60))
    page = f"<body><h1>Leave</h1><ul>{menu}</ul><ul>{languages}</ul><p>{BODY}</p><h2>Sources</h2><ul>{sources}</ul>"
    loaded = read_html(page.encode(), "leave")
    for start, end in loaded.navigation:
        assert loaded.text[start:end].startswith(("- Topic number", "- Nederlands"))
    assert len(loaded.navigation) == 120
    kept = worth_indexing(loaded.text, chunk(loaded.text), loaded.kind, loaded.navigation)
    joined = "\n".join(part.text for part in kept)
    assert "Members of staff" in joined
    assert "Article 59 of the Act" in joined
    assert "Topic number 0" not in joined
    assert "Topic number 0\n" in loaded.text


def test_noise_stays_in_the_text_of_the_document(tmp_path: Path) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    menu = "- [Measures](../measures.md)\n- [Roles](../roles.md)"
    page = "# Leave\n\n" + BODY + "\n\n## See also\n\n" + menu
    report = collection.ingest([SourceDocument(name="a.md", text=page), SourceDocument(name="b.md", text="<!-- x -->")])
    assert [failure.name for failure in report.failures] == ["b.md"]
    assert "no words besides" in report.failures[0].reason
    (document,) = report.added
    assert collection.get(document).text == page
    assert menu not in "".join(part.text for part in collection.chunks(document))
