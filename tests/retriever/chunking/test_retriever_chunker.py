"""Chunks: exact slices that cover the text, cut where its structure allows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.chunking import blocks as blocks_module
from retriever.chunking import front_matter
from retriever.chunking.chunker import FULL, MAX_BYTES, TARGET_BYTES, chunk, embedding_text, size_in_tokens
from retriever.parsing.text import clean
from retriever.types import Chunk, TextKind

FRAGMENTS = [
    "# One\n",
    "## Two { #two }\n",
    "Setext\n====\n",
    "A sentence here. And one more.\n",
    "\n",
    "\n\n",
    "   \n",
    "- item\n",
    "  - inner item\n",
    "1. first\n",
    "```py\ncode = 1\n\nmore\n```\n",
    "```\nnever closed\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "> quote\n> more\n",
    "[ref]: http://x.y\n",
    "---\n",
    "---\ntitle: x\n---\n",
    "    indented\n",
    "<div>\nraw\n</div>\n",
    "\t",
    "日本語の文章です。次の文。",
    "e\u0301" * 40,
    "long " * 60,
    "x" * 500,
    "\u2028",
    "\x0c",
    "\x85",
    "\u00a0\n",
    "😀" * 30,
    "***\n",
]

texts = st.one_of(
    st.text(max_size=300),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=30)), max_size=40).map("".join),
).map(clean)


def squeezed(text: str) -> str:
    return "".join(text.split())


def check(text: str, chunks: list[Chunk], maximum: int, kind: TextKind = "markdown") -> None:
    prose = text[front_matter.end(text) :] if kind == "markdown" else text
    for number, part in enumerate(chunks):
        assert part.ordinal == number
        assert 0 <= part.start < part.end <= len(text)
        assert part.text == text[part.start : part.end]
        assert part.text.strip()
        assert len(part.text.encode()) <= maximum
    assert all(before.end <= after.start for before, after in pairwise(chunks))
    assert "".join(squeezed(part.text) for part in chunks) == squeezed(prose)


@settings(max_examples=300, deadline=None)
@given(texts, st.sampled_from(["markdown", "plain"]), st.integers(16, 200), st.integers(0, 200), st.data())
def test_chunks_are_slices_that_cover_the_text(
    text: str, kind: TextKind, target: int, slack: int, data: st.DataObject
) -> None:
    pages: tuple[int, ...] = ()
    if kind == "plain":
        pages = tuple(sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0}))
    chunks = chunk(text, kind, pages, target=target, maximum=target + slack)
    check(text, chunks, target + slack, kind)
    for part in chunks:
        for page in pages:
            assert not part.start < page < part.end


@settings(max_examples=200, deadline=None)
@given(texts, st.sampled_from(["markdown", "plain"]), st.integers(16, 200))
def test_borders_lie_at_line_ends_unless_a_line_is_too_long(text: str, kind: TextKind, target: int) -> None:
    for part in chunk(text, kind, target=target, maximum=target):
        line_start = text.rfind("\n", 0, part.start) + 1
        line_end = text.find("\n", part.start)
        line = text[line_start : line_end if line_end >= 0 else len(text)]
        assert part.start == line_start or len(line.encode()) + 1 > target
        rest = text[part.end :].split("\n", 1)[0]
        last = text[text.rfind("\n", 0, part.end) + 1 : part.end] + rest
        assert not rest.strip() or len(last.encode()) + 1 > target


def test_a_short_text_is_one_chunk() -> None:
    text = "\n\n# Head\n\nBody.\n\n"
    (only,) = chunk(text)
    assert (only.start, only.end, only.text, only.heading) == (2, 15, "# Head\n\nBody.", ("Head",))


def test_headings_stand_above_their_chunks() -> None:
    body = "Some words to fill a line.\n" * 20
    text = f"# A\n\n{body}\n## B `code`\n\n{body}\n### C\n\n{body}\n## D\n\n{body}"
    assert [part.heading for part in chunk(text)] == [("A",), ("A", "B code"), ("A", "B code", "C"), ("A", "D")]


def test_a_chunk_of_two_sections_is_named_after_both() -> None:
    both = "# Quarries\n\n## Eastfell\n\nHelmets are white.\n\n## Wexley\n\nHelmets are orange."
    assert [part.heading for part in chunk(both)] == [("Quarries", "Eastfell / Wexley")]
    many = "# Quarries\n\n" + "\n\n".join(f"## {name}\n\nHelmets." for name in "ABCDE")
    assert [part.heading for part in chunk(many)] == [("Quarries", "A / B / C / D / …")]
    below = "# Quarries\n\nTwo in all.\n\n## Eastfell\n\nHelmets.\n\n## Wexley\n\nHelmets."
    assert [part.heading for part in chunk(below)] == [("Quarries",)], "its first text is in no section"
    (_, rest) = chunk(both, target=50, maximum=60)
    assert rest.heading == ("Quarries", "Wexley")
    begun = "## Eastfell\n\n" + "Helmets are white here.\n" * 9 + "\n## Wexley\n\nHelmets are orange."
    last = chunk(begun, target=110, maximum=130)[-1]
    assert (last.text[:7], last.heading) == ("Helmets", ("Eastfell / Wexley",)), "its end is not in Eastfell"


def test_a_chunk_that_goes_on_with_a_table_keeps_its_header_row_last() -> None:
    rows = "".join(f"| Helmet {n} | white |\n" for n in range(12))
    text = f"# Quarries\n\n## Eastfell\n\n| Item | Colour |\n|---|---|\n{rows}\n## Wexley\n\nHelmets are orange."
    last = chunk(text, target=150, maximum=180)[-1]
    assert last.text.startswith("| Helmet")
    assert last.heading == ("Quarries", "Eastfell / Wexley", "Item | Colour")


def test_a_heading_is_never_the_end_of_a_chunk_that_has_more_after_it() -> None:
    text = "Intro.\n\n# Head\n\n## Sub\n\n" + "word " * 176 + "\n"
    chunks = chunk(text)
    assert [part.text.split("\n")[0] for part in chunks] == ["Intro.", "# Head"]


@pytest.mark.parametrize(
    "block",
    ["```py\n" + "x = 1\n\n" * 120 + "```", "| a | b |\n|---|---|\n" + "| cell | cell |\n" * 55, "- item text\n" * 80],
)
def test_a_block_that_fits_stays_whole(block: str) -> None:
    block = block.strip("\n")
    assert TARGET_BYTES * 0.8 < len(block) <= MAX_BYTES
    text = "Before. " * 60 + "\n\n" + block + "\n\n" + "After. " * 60
    assert block in [part.text for part in chunk(text)]


def test_a_large_list_is_cut_between_items() -> None:
    item = "- first line of an item\n  second line of it\n"
    chunks = chunk(item * 200)
    assert len(chunks) > 5
    assert all(part.text.startswith("- first") and part.text.endswith("second line of it") for part in chunks)


def test_a_long_line_is_cut_after_sentences_and_at_spaces() -> None:
    sentences = chunk("This is a sentence of some length, is it not? " * 100, "plain")
    assert all(part.text.endswith("?") for part in sentences)
    words = chunk("word " * 1000, "plain")
    assert all(set(part.text.split()) == {"word"} for part in words)
    assert all(TARGET_BYTES / 2 < len(part.text) <= TARGET_BYTES for part in words[:-1])


def test_scripts_of_three_bytes_a_character_get_shorter_chunks() -> None:
    chunks = chunk("日本語の文章です。" * 200, "plain")
    assert all(len(part.text) <= TARGET_BYTES // 3 for part in chunks)
    assert all(part.text.endswith("。") for part in chunks)


def test_front_matter_is_in_no_chunk_and_moves_no_offset() -> None:
    text = "---\ntitle: x\ntags:\n  - one\n---\n\nBody.\n"
    (only,) = chunk(text)
    assert (only.text, only.heading) == ("Body.", ())
    assert text[only.start : only.end] == "Body."
    assert chunk(text, "plain")[0].text.startswith("---")


@pytest.mark.parametrize("text", ["---\nNo mapping, but prose.\n---\n", "---\ntitle: never closed\n\nBody.\n"])
def test_a_thematic_break_is_no_front_matter(text: str) -> None:
    check(text, chunk(text), MAX_BYTES)
    assert front_matter.end(text) == 0


def test_pages_are_numbered_and_kept_apart() -> None:
    text = "first\n\nsecond\n\n\n\nfourth"
    assert [(part.text, part.page) for part in chunk(text, "plain", (0, 7, 15, 17))] == [
        ("first", 1), ("second", 2), ("fourth", 4),
    ]  # fmt: skip


def test_embedding_text_names_what_the_chunk_does_not_show() -> None:
    part = Chunk(0, 0, 4, "Body of Two.", ("One", "Two"))
    assert embedding_text("Title", part) == "Title > One\nBody of Two."
    assert embedding_text("", Chunk(0, 0, 4, "Body", ())) == "Body"


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="target"):
        chunk("x", target=10, maximum=9)


@pytest.mark.parametrize(
    "text",
    [
        "> " * 20000 + "a",
        "[" * 50000,
        "- a\n\n" * 10000,
        "\n" * 200_000,
        "---\n" * 10000,
        "#" * 100_000,
        "a" * 1_000_000,
    ],
)
def test_hostile_texts_are_chunked_too(text: str) -> None:
    check(text, chunk(text), MAX_BYTES)


@settings(max_examples=50, deadline=None)
@given(text=st.text("ab .\n日é", max_size=3000), most=st.integers(40, 300))
def test_an_embedder_reads_all_of_a_chunk(text: str, most: int) -> None:
    """With tokens of one letter each, which are the smallest there are."""
    for part in chunk(clean(text), measure=size_in_tokens(len, most), target=FULL):
        assert len(part.text) <= most
        assert len(embedding_text("A title " * 9, part, lambda whole: len(whole) <= most)) <= max(most, len(part.text))


def test_the_parts_of_a_long_table_have_its_header_row() -> None:
    rows = "".join(f"| Person {number} | {number} | Delft |\n" for number in range(200))
    text = f"# People\n\n| Name | **Age** | [City](https://a.example) |\n|---|---|---|\n{rows}\nAfter it.\n\n# End"
    first, *parts = chunk(text)
    check(text, [first, *parts], MAX_BYTES)
    assert first.heading == ("People",)
    assert len(parts) > 3
    table = [part for part in parts if part.text.startswith("| Person")]
    for part in table:
        assert part.heading == ("People", "Name | Age | City")
        assert embedding_text("Staff", part).startswith("Staff > People > Name | Age | City\n| Person")
    assert all(part.heading[-1] != "Name | Age | City" for part in parts if part not in table)


def test_a_header_row_counts_for_the_size_of_a_part() -> None:
    header = " | ".join(f"Column number {number}" for number in range(10))
    rows = "".join("| " + " | ".join(str(number + row) for number in range(10)) + " |\n" for row in range(300))
    parts = chunk(f"| {header} |\n|{'---|' * 10}\n{rows}")
    assert max(len(embedding_text("", part).encode()) for part in parts) <= MAX_BYTES


def test_a_wide_header_row_is_cut_between_cells() -> None:
    header = " | ".join(f"Column number {number}" for number in range(40))
    rows = "".join("| " + " | ".join("value" for _ in range(40)) + " |\n" for _ in range(30))
    *_, last = chunk(f"| {header} |\n|{'---|' * 40}\n{rows}")
    assert last.heading[0].endswith(f"Column number {last.heading[0].count('|')}")
    assert 150 < len(last.heading[0]) <= 200


ROW_LINES = [
    *("| a | b |", "|---|---|", "| - | : |", "|x", "| `c | d` |", "  | a |", "a | b", "--- | ---"),
    *("", "text", "# Title", "```", "- item"),
]


@given(st.lists(st.sampled_from(ROW_LINES), max_size=40))
def test_rows_that_are_left_out_of_long_tables_change_no_block(lines: list[str]) -> None:
    text = "\n".join(lines)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(blocks_module, "LONG_TABLE", 10**9)
        wanted = blocks_module.blocks(text, "markdown")
        patches.setattr(blocks_module, "LONG_TABLE", 2)
        assert blocks_module.blocks(text, "markdown") == wanted


def test_a_very_wide_table_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "LONG_ROW", 1000)
    rows = [f"| {' | '.join(row)} |" for row in (map(str, range(500)), ["---"] * 500, ["x"] * 500)]
    (block,) = blocks_module.blocks("\n".join(rows), "markdown")
    assert (block.kind, block.start, block.end) == ("table", 0, len("\n".join(rows)))


@pytest.mark.parametrize(("names", "closed"), [(150, True), (150, False), (40, False)])
def test_a_table_with_a_long_header_is_one(monkeypatch: pytest.MonkeyPatch, names: int, closed: bool) -> None:
    monkeypatch.setattr(blocks_module, "LONG_ROW", 1000)
    head = " | ".join(f"question {number} {'x' * 100}" for number in range(names))
    rows = [f"| {head}{' |' if closed else ''}", "|" + "---|" * names, "|" + " 1 |" * names]
    (block,) = blocks_module.blocks("\n".join(rows), "markdown")
    assert (block.kind, block.heading.startswith("question 0")) == ("table", True)


def test_a_line_of_dashes_is_read_once() -> None:
    """A pattern tried each dash as the last one: a line of a megabyte took hours."""
    text = f"| a | b |\n|{'-' * 1_000_000}x\n| c | d |"
    assert [block.kind for block in blocks_module.blocks(text, "markdown")] == ["text"]
