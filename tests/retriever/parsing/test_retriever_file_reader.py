"""The reading process: its limits, and that one bad file does not spoil the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retriever import FileReader, ReadLimits, RetrieverError, UnreadableDocument, UnsupportedFormat

SLOW = "<p>x" + "<span><div></span></div>" * 300_000


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.md"
    path.write_text("# Größe\n\ntext 😀\n", encoding="utf-8")
    return path


def test_one_process_reads_many_files(tmp_path: Path, good: Path) -> None:
    with FileReader() as reader:
        assert reader.read(good).text == "# Größe\n\ntext 😀\n"
        process = reader._child
        assert reader.read(good, "other.txt").kind == "plain"
        with pytest.raises(UnsupportedFormat, match="supported formats"):
            reader.read(good, "x.exe")
        with pytest.raises(UnreadableDocument, match="does not exist"):
            reader.read(tmp_path / "no.md")
        assert reader.read(good).title == "Größe"
        assert reader._child is process
    assert process is not None
    assert process.returncode is not None


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path, good: Path) -> None:
    (tmp_path / "slow.html").write_text(SLOW)
    with FileReader(ReadLimits(seconds=1.0)) as reader:
        with pytest.raises(UnreadableDocument, match="longer than 1 seconds"):
            reader.read(tmp_path / "slow.html")
        assert reader.read(good).title == "Größe"


def test_a_file_that_takes_too_much_processor_time_is_given_up(tmp_path: Path, good: Path) -> None:
    (tmp_path / "slow.html").write_text(SLOW)
    with FileReader(ReadLimits(cpu_seconds=1)) as reader:
        with pytest.raises(UnreadableDocument, match="processor time"):
            reader.read(tmp_path / "slow.html")
        assert reader.read(good).title == "Größe"


def test_a_file_that_takes_too_much_memory_is_given_up(tmp_path: Path, good: Path) -> None:
    with (tmp_path / "big.txt").open("wb") as file:
        file.write(b"text")
        file.truncate(90_000_000)
    with FileReader(ReadLimits(memory_bytes=80_000_000)) as reader:
        with pytest.raises(UnreadableDocument, match="memory"):
            reader.read(tmp_path / "big.txt")
        assert reader.read(good).title == "Größe"


def test_too_much_text_is_reported(good: Path) -> None:
    with FileReader(ReadLimits(text_chars=5)) as reader, pytest.raises(UnreadableDocument, match="split it"):
        reader.read(good)


def test_a_killed_process_is_replaced(good: Path) -> None:
    with FileReader() as reader:
        reader.read(good)
        assert reader._child is not None
        reader._child.kill()
        reader._child.wait()
        assert reader.read(good).title == "Größe"


def test_a_process_that_cannot_start_is_not_blamed_on_the_file(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with FileReader() as reader, pytest.raises(RetrieverError, match="does not start") as caught:
        reader.read(good)
    assert not isinstance(caught.value, UnreadableDocument)


def test_the_reading_process_imports_nothing_heavy() -> None:
    code = "import sys, retriever.parsing.parse_file; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "retriever.parsing.formats" in loaded
    assert not loaded & {"torch", "numpy", "faiss", "sentence_transformers", "transformers", "sqlite3", "pydantic"}
