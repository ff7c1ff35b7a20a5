"""Files by their endings, and hostile ones among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retriever import SUPPORTED, UnreadableDocument, UnsupportedFormat, load_file


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_markdown_is_stored_as_it_is(tmp_path: Path) -> None:
    source = "---\ntitle: 'Front'\n---\n# Head { #id }\n\n* item\n"
    loaded = load_file(write(tmp_path, "a.md", source))
    assert (loaded.text, loaded.title, loaded.kind) == (source, "Front", "markdown")


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("# The `head` of [it](x) { #anchor }\n", "The head of it"),
        ("text\n\n## Two ##\n", "Two"),
        ("no heading", "name"),
        ("---\ntitle: Plain # said\n---\n", "Plain"),
        ('---\nlayout: post\n"title": "A \\"B\\": C"\n---\n# Head\n', 'A "B": C'),
        ("---\ntitle: 'It''s'\n---\n", "It's"),
        ("---\ntitle: >-\n  two\n  lines\nauthor: x\n---\n", "two lines"),
        ("---\ntitle:\nauthor: x\n---\n# Head\n", "Head"),
        ("---\nmore:\n  title: inner\n---\n", "name"),
        ("---\nProse, no YAML\n\ntitle: x\n---\n", "name"),
    ],
)
def test_markdown_title(tmp_path: Path, source: str, title: str) -> None:
    assert load_file(write(tmp_path, "name.markdown", source)).title == title


def test_the_given_name_decides_the_format(tmp_path: Path) -> None:
    stored = write(tmp_path, "upload-1234", "# Head")
    assert load_file(stored, "Notes.MD").title == "Head"
    assert load_file(stored, "dir/notes.txt").kind == "plain"


@pytest.mark.parametrize("name", ["a.png", "a.zip", "a.exe", "README", ".md"])
def test_unsupported_formats_name_the_supported_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        load_file(write(tmp_path, name, "x"))
    assert all(ending in caught.value.reason for ending in SUPPORTED)


@pytest.mark.parametrize("ending", SUPPORTED)
@pytest.mark.parametrize("content", [b"", b" \n\t\r\n", b"\0\0\0", b"\xef\xbb\xbf"])
def test_empty_files_are_reported(tmp_path: Path, ending: str, content: bytes) -> None:
    with pytest.raises(UnreadableDocument):
        load_file(write(tmp_path, "a" + ending, content))


@pytest.mark.parametrize("ending", [ending for ending in SUPPORTED if ending != ".pdf"])
def test_a_wrong_ending_is_named(tmp_path: Path, ending: str) -> None:
    with pytest.raises(UnreadableDocument, match="PDF"):
        load_file(write(tmp_path, "a" + ending, b"%PDF-1.7\n..."))


def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere")
    big = write(tmp_path, "big.txt", "x" * 100)
    for name, reason in [
        ("pipe.txt", "regular"),
        ("folder.txt", "regular"),
        ("dangling.txt", "does not exist"),
        ("no.txt", "does not exist"),
    ]:
        with pytest.raises(UnreadableDocument, match=reason):
            load_file(tmp_path / name)
    with pytest.raises(UnreadableDocument, match="split it"):
        load_file(big, max_bytes=99)


def test_a_huge_line_is_text_like_any_other(tmp_path: Path) -> None:
    assert len(load_file(write(tmp_path, "a.txt", "word " * 400_000)).text) == 2_000_000
