"""`rag ingest`: which document a file becomes, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

from rag_service.cli.commands.documents.ingest import Source, known_names
from tests.support.command_line import rag


def test_a_file_that_came_with_its_folder_stays_one_document(api_url: str, tmp_path: Path) -> None:
    """Named alone it became a second document, and every question found both."""
    folder = tmp_path / "manual"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.md").write_text("# Kiwis\n\nKiwis are green.")
    (folder / "sub" / "two.md").write_text("# Plums\n\nPlums are blue.")

    def ingest(path: Path) -> str:
        result = rag("ingest", str(path), "-c", "once", "--url", api_url)
        assert result.exit_code == 0, result.output
        return result.stdout

    assert ingest(folder) == "2 of 2 files are in 'once': 2 new.\n"
    assert ingest(folder / "one.md") == "1 of 1 file is in 'once': 1 unchanged.\n"
    (folder / "sub" / "two.md").write_text("# Plums\n\nPlums are yellow.")
    assert ingest(folder / "sub" / "two.md") == "1 of 1 file is in 'once': 1 replaced.\n"
    (folder / "sub" / "three.md").write_text("# Figs\n\nFigs are sweet.")
    assert ingest(folder / "sub") == "2 of 2 files are in 'once': 1 new, 1 unchanged.\n"
    told = json.loads(rag("ingest", str(folder / "one.md"), "-c", "once", "--url", api_url, "--json").stdout)
    assert (told["added"], told["replaced"], told["unchanged"]) == (0, 0, 1)


def test_a_file_that_came_alone_stays_one_document(api_url: str, tmp_path: Path) -> None:
    """With its folder it became a second document, and every question found both."""
    folder = tmp_path / "manual"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.md").write_text("# Kiwis\n\nKiwis are green.")
    (folder / "sub" / "two.md").write_text("# Plums\n\nPlums are blue.")

    def ingest(*paths: Path) -> str:
        result = rag("ingest", *map(str, paths), "-c", "alone", "--url", api_url)
        assert result.exit_code == 0, result.output
        return result.stdout

    assert ingest(folder / "one.md", folder / "sub" / "two.md") == "2 of 2 files are in 'alone': 2 new.\n"
    (folder / "one.md").write_text("# Kiwis\n\nKiwis are brown.")
    assert ingest(folder) == "2 of 2 files are in 'alone': 1 replaced, 1 unchanged.\n"
    assert ingest(folder / "one.md", folder) == "2 of 2 files are in 'alone': 2 unchanged.\n"


def test_files_that_left_their_folder_are_said_to_stay(api_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "leaflets"
    folder.mkdir()
    for name in ("one", "two", "three"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nKiwis are green.")
    place = ("-c", "left", "--url", api_url)
    assert "Not in the folder" not in rag("ingest", str(folder), *place).stderr
    (folder / "two.md").unlink()
    assert "Not in the folder" not in rag("ingest", str(folder / "one.md"), *place).stderr
    again = rag("ingest", str(folder), *place)
    assert again.stdout == "2 of 2 files are in 'left': 2 unchanged.\n"
    assert "Not in the folder: 1 document that came from leaflets/." in again.stderr


def test_a_name_stands_for_a_file_only_if_its_path_ends_with_it(tmp_path: Path) -> None:
    def named(path: str, names: set[str], name: str, alone: bool = True) -> str:
        return known_names([Source(tmp_path / path, name, alone=alone)], names)[0].name

    assert named("a/b/x.md", {"a/b/x.md", "x.md"}, "b/x.md") == "a/b/x.md", "the longest"
    assert named("c/x.md", {"b/x.md", "x.md.txt"}, "c/x.md") == "c/x.md"
    assert named("a/x.md", {"a/x.md", "x.md"}, "a/x.md") == "a/x.md", "its own"
    assert named("a/x.md", {"x.md"}, "a/x.md") == "x.md", "of an earlier version, or the page"
    assert named("a/x.md", {"x.md"}, "a/x.md", alone=False) == "a/x.md", "it may be another file's"
    twice = [Source(tmp_path / "p" / "a" / "x.md", "x.md"), Source(tmp_path / "q" / "a" / "x.md", "other")]
    assert [one.name for one in known_names(twice, {"a/x.md"})] == ["a/x.md", "other"]


def test_two_folders_of_one_name_are_remarked_on(api_url: str, tmp_path: Path) -> None:
    """The second one silently took the documents of the first one away."""
    for place in ("a", "b"):
        (tmp_path / place / "docs").mkdir(parents=True)
        (tmp_path / place / "docs" / "one.md").write_text(f"# One\n\nThe one of {place}.")
    said = []
    for path in ("a/docs", "a/docs", "b/docs", "a/docs/one.md"):
        result = rag("ingest", str(tmp_path / path), "-c", "twins", "--url", api_url)
        assert result.exit_code == 0, result.output
        said.append("came from another folder of that name" in result.stderr)
    assert said == [False, False, True, False]
