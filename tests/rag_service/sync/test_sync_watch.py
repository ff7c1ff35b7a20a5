"""`rag sync --watch`: changes of a folder are seen, and Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_service.cli.api import Api, Rejected
from rag_service.client import calls
from rag_service.sync.changes import Changes
from tests.support.command_line import rag

pytestmark = pytest.mark.usefixtures("own_folder")
FOREVER_S = 60.0


@contextlib.contextmanager
def watching(url: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = ["sync", str(folder), "-c", "watched", "--watch", "--json", "--url", url, *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "rag_service.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_pass(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return dict(json.loads(line))


def until(process: subprocess.Popen[str], group: str, paths: list[Any]) -> dict[str, Any]:
    """The next pass that tells of changes: a change may be seen in two parts, and one without any may lie between."""
    while True:
        told = next_pass(process)
        if told[group]:
            assert told[group] == paths
            return told


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_changes_go_in_until_it_is_interrupted(live_url: str, tmp_path: Path, end: signal.Signals) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe first text.")
    (folder / "b.md").write_text("# B\n\nThe second text.")
    with Api(live_url) as api, watching(live_url, folder, "--yes", "--every", "3600") as process:
        try:
            assert next_pass(process)["added"] == ["a.md", "b.md"]
            (folder / "deep").mkdir()
            (folder / "deep" / "c.md").write_text("# C\n\nThe third text.")
            until(process, "added", ["deep/c.md"])
            (folder / "a.md").unlink()
            until(process, "removed", ["a.md"])
            names = {one["name"] for one in api.json(calls.documents("watched", 9, ""))["documents"]}
            assert names == {"notes/b.md", "notes/deep/c.md"}
            process.send_signal(end)
            _, told = process.communicate(timeout=60)
            assert process.returncode in (0, 130), told  # 130: a pass was under way
            assert "Stopped" in told
            assert "Traceback" not in told
        finally:
            with contextlib.suppress(Rejected):
                api.send(calls.delete_collection("watched"))


def test_without_consent_removals_are_only_listed(live_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"# {name}\n\nSome text.")
    with Api(live_url) as api, watching(live_url, folder) as process:
        try:
            assert len(next_pass(process)["added"]) == 2
            (folder / "a.md").unlink()
            assert until(process, "to_remove", ["a.md"])["removed"] == []
        finally:
            process.kill()
            with contextlib.suppress(Rejected):
                api.send(calls.delete_collection("watched"))


def test_a_change_between_two_waits_is_not_lost(tmp_path: Path) -> None:
    with Changes(tmp_path) as changes:
        (tmp_path / ".hidden").write_text("x")
        (tmp_path / "a.md").write_text("x")
        assert changes.wait(FOREVER_S)
        assert not changes.wait(0)


def test_a_folder_that_comes_back_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with Changes(folder) as changes:
        folder.mkdir()
        changes.restart()
        (folder / "a.md").write_text("x")
        assert changes.wait(FOREVER_S)
        folder.rename(tmp_path / "away")
        folder.mkdir()
        assert changes.wait(FOREVER_S)  # it is another folder now
        changes.restart()
        (folder / "b.md").write_text("x")
        assert changes.wait(FOREVER_S)
    assert not [thread for thread in threading.enumerate() if thread.name == "changes"]


def test_a_sync_that_is_killed_is_finished_by_the_next_one(live_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(130):
        (folder / f"{number:03}.md").write_text(f"# Number {number}\n\nThe text of number {number}.")
    with Api(live_url) as api:
        try:
            with watching(live_url, folder) as process:
                while True:  # until the first batch is in
                    with contextlib.suppress(Rejected):
                        if api.json(calls.documents("watched", 1, ""))["documents"]:
                            break
                process.kill()
            told = rag("sync", str(folder), "-c", "watched", "--json", "--url", live_url)
            assert told.exit_code == 0, told.output
            assert json.loads(told.stdout)["unchanged"] > 0
            listed = api.json(calls.documents("watched", 1000, ""))["documents"]
            assert sorted(one["name"] for one in listed) == [f"notes/{number:03}.md" for number in range(130)]
        finally:
            with contextlib.suppress(Rejected):
                api.send(calls.delete_collection("watched"))
