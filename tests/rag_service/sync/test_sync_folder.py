"""`rag sync` of real folders into a real collection, over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_service.cli import confirm
from rag_service.cli.api import Api, Rejected
from rag_service.client import calls
from retriever.document_ids import id_of_name
from tests.support.command_line import rag

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def api(live_url: str) -> Iterator[Api]:
    """The service, without the collection `synced` before and after."""
    with Api(live_url) as api:
        yield api
        with contextlib.suppress(Rejected):
            api.send(calls.delete_collection("synced"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    (root / "sub").mkdir(parents=True)
    for name in ("a.md", "b.md", "c.md", "sub/d.md"):
        write(root / name, f"# About {name}\n\nThe text of {name}.")
    return root


def write(path: Path, text: str) -> None:
    """Write a file that has not been touched for an hour, with a time stamp of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    write.count = getattr(write, "count", 0) + 1  # type: ignore[attr-defined]
    stamp = time.time() - 3600 + write.count  # type: ignore[attr-defined]
    os.utime(path, (stamp, stamp))


def sync(api: Api, folder: Path | str, *options: str, said: str | None = None, status: int = 0) -> dict[str, Any] | str:
    as_json = () if said is not None or "--plain" in options else ("--json",)
    options = tuple(option for option in options if option != "--plain")
    told = rag("sync", str(folder), "-c", "synced", *options, *as_json, "--url", api.address.base_url, said=said)
    assert told.exit_code == status, told.output
    return json.loads(told.stdout) if as_json else told.stdout + told.stderr


def held(api: Api) -> dict[str, str]:
    """Name -> id of the collection's documents."""
    return {one["name"]: one["document_id"] for one in api.json(calls.documents("synced", 1000, ""))["documents"]}


def text(api: Api, name: str) -> str:
    return str(api.json(calls.document("synced", held(api)[name]))["text"])


def names(*paths: str) -> set[str]:
    return {f"notes/{path}" for path in paths}


def test_new_changed_renamed_and_removed_files(api: Api, folder: Path) -> None:
    first = sync(api, folder)
    assert first["added"] == ["a.md", "b.md", "c.md", "sub/d.md"]
    before = held(api)
    assert before == {name: id_of_name(name) for name in names("a.md", "b.md", "c.md", "sub/d.md")}
    again = sync(api, folder)
    assert (again["added"], again["changed"], again["unchanged"]) == ([], [], 4)

    write(folder / "a.md", "# About a\n\nAnother text.")
    shutil.move(folder / "b.md", folder / "sub" / "moved.md")
    (folder / "c.md").unlink()
    write(folder / "new.md", "# New\n\nA new text.")
    second = sync(api, folder, "--yes")
    assert (second["added"], second["changed"]) == (["new.md"], ["a.md"])
    assert second["renamed"] == [{"from": "b.md", "to": "sub/moved.md"}]
    assert (second["to_remove"], second["removed"]) == (["c.md"], ["c.md"])
    after = held(api)
    assert set(after) == names("a.md", "sub/moved.md", "sub/d.md", "new.md")
    assert after["notes/sub/moved.md"] == before["notes/b.md"]  # a document keeps its id
    assert "Another text." in text(api, "notes/a.md")

    write(folder / "b.md", "# B again\n\nOf another content.")  # its name's id is in use
    sync(api, folder)
    final = held(api)
    assert final["notes/sub/moved.md"] == before["notes/b.md"] != final["notes/b.md"]
    assert sync(api, folder)["unchanged"] == 5


def test_a_dry_run_says_that_there_is_no_such_collection_and_creates_none(api: Api, folder: Path) -> None:
    for _ in range(2):
        assert "There is no collection synced yet" in " ".join(sync(api, folder, "--dry-run", "--plain").split())
    sync(api, folder)
    assert "There is no collection" not in sync(api, folder, "--dry-run", "--plain")


def test_removals_are_listed_and_need_consent(api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync(api, folder)
    (folder / "a.md").unlink()
    dry = sync(api, folder, "--dry-run")
    assert (dry["to_remove"], dry["removed"]) == (["a.md"], [])
    assert sync(api, folder, status=1)["removed"] == []  # nobody is asked with --json
    assert sync(api, folder, "--no-delete")["removed"] == []
    for answer, terminal in (("n\n", True), ("y\n", False), ("", False)):
        monkeypatch.setattr(confirm, "at_terminal", lambda there=terminal: there)
        shown = sync(api, folder, said=answer, status=1)
        assert "1 removed\n    a.md" in shown
        assert ("Remove 1 document?" in shown) == terminal, "a script is not asked"
        assert "The document of 1 removed file stays; --yes removes it." in shown
    assert set(held(api)) == names("a.md", "b.md", "c.md", "sub/d.md")
    monkeypatch.setattr(confirm, "at_terminal", lambda: True)
    assert "1 removed, 3 unchanged" in sync(api, folder, said="y\n")
    assert set(held(api)) == names("b.md", "c.md", "sub/d.md")


def test_the_last_line_counts_what_did_not_go_in(api: Api, folder: Path) -> None:
    done = "4 added, 0 changed, 0 renamed, 0 removed, 0 unchanged."
    assert sync(api, folder, "--plain").startswith(f"notes → synced: {done}\n")
    write(folder / "a.md", "")
    write(folder / "b.md", "# B\n\nAnother text.")
    write(folder / "picture.xyz", "?")
    (folder / "lost.md").symlink_to("nowhere.md")
    told = rag("sync", str(folder), "-c", "synced", "--url", api.address.base_url)
    assert told.exit_code == 1
    counts = "0 added, 1 changed, 0 renamed, 0 removed, 2 unchanged, 1 failed, 1 unreadable, 1 skipped."
    assert told.stdout == f"notes → synced: {counts}\n"


def test_an_empty_or_missing_folder_removes_nothing(api: Api, folder: Path) -> None:
    sync(api, folder)
    away = folder.with_name("away")
    folder.rename(away)
    missing = sync(api, folder, "--yes", "--delete-many", "--plain", status=1)
    assert "does not exist. Is its disk mounted?" in missing
    folder.mkdir()
    (folder / ".mounted-here").write_text("")
    empty = sync(api, folder, "--yes", "--delete-many", status=1)
    assert empty["removed"] == []
    assert "no files now" in empty["refusal"]
    shown = sync(api, folder, "--yes", "--plain", status=1)
    assert "4 gone from the source, their documents stay" in shown
    assert "4 removed" not in shown
    folder.joinpath("x.png").write_bytes(b"?")
    assert sync(api, folder, "--yes", "--delete-many", status=1)["removed"] == []
    assert len(held(api)) == 4


def named(path: Any) -> bool:
    """Whether a folder is listed by its name; other threads may list open ones meanwhile, by their numbers."""
    return not isinstance(path, int)


def test_a_part_that_is_not_mounted_or_cannot_be_read_stays(
    api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(api, folder)
    (folder / "sub" / "d.md").unlink()  # as if the disk of sub/ were away
    kept = sync(api, folder, "--yes", status=1)
    assert (kept["removed"], [one["path"] for one in kept["kept"]]) == ([], ["sub/d.md"])
    (folder / "a.md").unlink()
    scandir = os.scandir

    def denied(path: Any) -> Any:
        if named(path) and Path(path).name == "sub":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", denied)
        unreadable = sync(api, folder, "--yes", "--delete-many", status=1)
    assert (unreadable["removed"], unreadable["unreadable"]) == (
        ["a.md"],
        [{"path": "sub", "reason": "the folder cannot be read: Permission denied"}],
    )
    assert set(held(api)) == names("b.md", "c.md", "sub/d.md")
    assert sync(api, folder, "--yes", "--delete-many")["removed"] == ["sub/d.md"]


def test_a_disk_that_goes_while_it_is_listed_removes_nothing(
    api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(api, folder)
    scandir = os.scandir

    def going(path: Any) -> Any:
        listed = scandir(path)
        if named(path) and Path(path) == folder:
            folder.rename(folder.with_name("away"))
        return listed

    def gone_below(path: Any) -> Any:
        if named(path) and Path(path).name == "sub":
            raise FileNotFoundError(2, "No such file or directory")
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", gone_below)
        told = sync(api, folder, "--yes", "--delete-many", status=1)
        assert (told["removed"], [one["path"] for one in told["kept"]]) == ([], ["sub/d.md"])
        patch.setattr(os, "scandir", going)
        assert "Is its disk mounted?" in sync(api, folder, "--yes", "--delete-many", "--plain", status=1)
        folder.mkdir()
        (folder / "a.md").write_text("another disk")

        def swapped(path: Any) -> Any:
            listed = scandir(path)
            if named(path) and Path(path) == folder:
                folder.rename(folder.with_name("second"))
                folder.mkdir()
            return listed

        patch.setattr(os, "scandir", swapped)
        assert "became another folder" in sync(api, folder, "--yes", "--delete-many", "--plain", status=1)
    assert len(held(api)) == 4


def test_most_documents_are_removed_only_on_demand(api: Api, folder: Path) -> None:
    for number in range(6):
        write(folder / f"{number}.md", f"# Number {number}\n\nText {number}.")
    sync(api, folder)
    for number in range(6):
        (folder / f"{number}.md").unlink()
    refused = sync(api, folder, "--yes", status=1)
    assert refused["removed"] == []
    assert "6 of 10 documents" in refused["refusal"]
    assert "--name" in refused["refusal"]
    assert len(sync(api, folder, "--yes", "--delete-many")["removed"]) == 6


def test_another_folder_of_the_same_name_removes_nothing(api: Api, folder: Path) -> None:
    sync(api, folder)
    before = held(api)
    other = folder.parent / "elsewhere" / folder.name
    write(other / "other.md", "# Another\n\nFolder.")
    refused = sync(api, other, "--yes", status=1)
    assert refused["removed"] == []
    assert f"{len(before)} of {len(before)} documents" in refused["refusal"]
    assert before.items() <= held(api).items()
    assert len(sync(api, other, "--yes", "--delete-many")["removed"]) == len(before)


def test_what_came_another_way_is_left_alone_and_what_was_ingested_is_taken_over(api: Api, folder: Path) -> None:
    assert rag("ingest", str(folder), "-c", "synced", "--url", api.address.base_url).exit_code == 0
    api.send(calls.add_texts("synced", [{"id": "own", "title": "Own", "text": "A text."}]))
    (folder / "c.md").unlink()
    before = held(api)
    sync(api, folder, "--yes")
    assert before.items() <= held(api).items()  # c.md was never synced
    assert sync(api, folder)["unchanged"] == 3
    (folder / "b.md").unlink()
    sync(api, folder, "--yes")
    assert "notes/b.md" not in held(api)


def test_a_touched_file_costs_nothing_and_one_with_its_old_time_is_found_out(api: Api, folder: Path) -> None:
    sync(api, folder)
    os.utime(folder / "a.md")
    touched = sync(api, folder)
    assert (touched["unchanged"], touched["changed"]) == (4, [])
    (folder / "a.md").write_text("# About a.md\n\nThe TEXT of a.md.")  # within the same second, as an editor might
    sync(api, folder)
    (folder / "a.md").write_text("# About a.md\n\nThe text OF a.md.")
    stamp = (folder / "a.md").stat().st_mtime_ns
    sync(api, folder)
    (folder / "a.md").write_text("# About a.md\n\nThe text of A.md.")
    os.utime(folder / "a.md", ns=(stamp, stamp))
    assert sync(api, folder)["changed"] == ["a.md"]


def test_patterns_links_and_formats(api: Api, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("# Secret")
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "in.md").symlink_to(folder / "a.md")
    (folder / "picture.png").write_bytes(b"?")
    (folder / ".git").mkdir()
    write(folder / ".git" / "x.md", "x")
    write(folder / "drafts" / "deep" / "e.md", "# E\n\nE.")
    write(folder / "old.txt", "Old.")
    (folder / ".ragignore").write_text("drafts/\n# a comment\n")
    told = sync(api, folder, "--exclude", "/sub", "--include", "*.md", "--include", "*.png")
    assert told["added"] == ["a.md", "b.md", "c.md", "in.md"]
    assert told["skipped"] == [
        {"path": "out.md", "reason": "a link that leads out of the folder"},
        {"path": "picture.png", "reason": ".png is not supported"},
    ]
    assert set(held(api)) == names("a.md", "b.md", "c.md", "in.md")


def test_a_file_that_becomes_unreadable_keeps_its_document(api: Api, folder: Path) -> None:
    sync(api, folder)
    write(folder / "a.md", "   ")
    told = sync(api, folder, "--yes", status=1)
    assert told["failures"] == [{"path": "a.md", "reason": "the file is empty"}]
    assert "The text of a.md." in text(api, "notes/a.md")


def test_wrong_usage(api: Api, folder: Path) -> None:
    for options, told in (
        (("--yes", "--no-delete"), "choose one"),
        (("--watch", "--dry-run"), "looks once"),
        (("--name", "a/b"), "--name must not"),
        (("--endpoint-url", "http://x"), "is for s3://"),
        (("--every", "0"), "--every"),
    ):
        assert told in sync(api, folder, "--plain", *options, status=2)
    assert "takes single files" in sync(api, folder / "a.md", "--plain", status=1)
    assert "is not an address" in sync(api, "s3://", "--plain", status=1)
