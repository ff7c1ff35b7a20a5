"""When memory counts as short."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.worker import memory


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with half of its memory free, in no group."""
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 500 kB\nHugePages: 0\n")
    return tmp_path


def group(folder: Path, most: str, used: int, reclaimable: int) -> None:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {reclaimable}\n")


def test_a_machine_with_room(machine: Path) -> None:
    assert not memory.shortage("cpu")()


def test_a_full_machine(machine: Path) -> None:
    (machine / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 49 kB\n")
    assert memory.shortage("cpu")()


@pytest.mark.parametrize(
    ("most", "used", "reclaimable", "short"),
    [("max", 10**9, 0, False), ("1000", 900, 0, False), ("1000", 960, 0, True), ("1000", 960, 100, False)],
)
def test_a_limited_group_of_processes(machine: Path, most: str, used: int, reclaimable: int, short: bool) -> None:
    group(machine, most, used, reclaimable)
    assert memory.shortage("cpu")() is short


def test_nothing_is_known_elsewhere(machine: Path) -> None:
    (machine / "meminfo").unlink()
    assert not memory.shortage("cpu")()
    (machine / "meminfo").write_text("MemTotal: 1000 kB\n")
    assert not memory.shortage("cpu")()


def test_this_machine_is_asked() -> None:
    assert memory.shortage("cpu")() in (True, False)
