"""The data folder is its user's alone, also one that an earlier version left open to all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_service.cli.console import CliError
from rag_service.cli.stack.data_folder import keep_private, missing, only_one, removed_on_failure


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_what_is_written_to_it_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    keep_private(folder)
    (folder / "collections").mkdir()
    (folder / "file").touch()
    assert [mode(path) for path in (folder, folder / "collections", folder / "file")] == [0o700, 0o700, 0o600]


def test_an_open_folder_is_tightened_and_what_is_not_ours_left_alone(tmp_path: Path) -> None:
    folder, models = tmp_path / "data", tmp_path / "models"
    for made in (models, folder, folder / "redis", folder / "uploads", folder / "collections", folder / "notes"):
        made.mkdir()
    for name in ("key", "run.json", "script.sh"):
        (folder / name).touch(0o755)
    (folder / "models").symlink_to(models)
    (folder / "learned").symlink_to(models)
    keep_private(folder)
    private = ("", "redis", "uploads", "collections", "key", "run.json")
    assert all(mode(folder / name) & 0o077 == 0 for name in private)
    assert [mode(path) for path in (models, folder / "notes", folder / "script.sh")] == [0o755] * 3


def failing(folder: Path, *more: str) -> None:
    """What `rag up` does with a folder until it fails."""

    def start() -> None:
        made = missing(folder)
        keep_private(folder)
        with only_one(folder), removed_on_failure(folder, made):
            (folder / "key").write_text("secret")
            for name in more:
                (folder / name).mkdir()
            raise CliError("no model")

    with pytest.raises(CliError, match="no model"):
        start()


def test_a_new_folder_goes_with_what_was_made_for_a_start_that_failed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    failing(tmp_path / "there" / "deep" / "data")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_a_folder_that_was_there_or_has_something_else_stays(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    failing(tmp_path / "empty")
    failing(tmp_path / "new", "models")
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert names == ["empty", "empty/key", "empty/up.lock", "new", "new/key", "new/models", "new/up.lock"]


def test_a_folder_stays_where_nothing_failed(tmp_path: Path) -> None:
    made = missing(tmp_path / "data")
    keep_private(tmp_path / "data")
    with only_one(tmp_path / "data"), removed_on_failure(tmp_path / "data", made):
        pass
    assert (tmp_path / "data" / "up.lock").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    keep_private(tmp_path / "file" / "data")  # a worker that only answers needs none
    with (
        pytest.raises(CliError, match=r"file/data cannot be used .* RAG_DATA_DIR"),
        only_one(tmp_path / "file" / "data"),
    ):
        pass
