"""Logs are added to, rotated, and have a time on every line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from workers.broker.log_file import LogFile

STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


def says(log: LogFile, code: str) -> None:
    """A process that writes by itself, and is then gone."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    log.take(process)
    process.wait()
    log.close()


def test_a_new_process_is_added_and_its_last_words_are_its_own(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs" / "worker.log")
    says(log, "raise SystemExit('the first crash')")
    assert log.last_words() == ["the first crash"]
    says(log, "print('2026-01-02 03:04:05,678 INFO stamped already'); raise SystemExit('the second crash')")
    assert log.last_words() == ["2026-01-02 03:04:05,678 INFO stamped already", "the second crash"]
    text = log.path.read_text()
    assert text.index("the first crash") < text.index("the second crash")
    assert "\n2026-01-02 03:04:05,678 INFO stamped already\n" in text
    assert all(STAMPED.match(line) for line in text.splitlines()), text


def test_recent_lines_are_read_while_the_process_runs(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "worker.log")
    code = "print('loading', flush=True); input()"
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
    log.take(process)
    while not log.recent() and process.poll() is None:
        pass
    assert log.recent() == ["loading"]
    assert process.stdin is not None
    with process.stdin as typed:  # not communicate(), which would read beside the log
        typed.write(b"\n")
    process.wait()
    log.close()


def test_raw_crashes_have_a_time_on_every_line(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "worker.log")
    says(log, "import faulthandler, os; faulthandler.enable(); os.abort()")
    lines = log.path.read_text().splitlines()
    assert any("Fatal Python error" in line for line in lines)
    assert all(STAMPED.match(line) for line in lines)


def test_of_a_progress_bar_the_last_state_is_kept(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "worker.log")
    says(log, r"print('loading 0%\rloading 50%\rloading 100%')")
    assert log.last_words() == ["loading 100%"]


def test_a_log_is_rotated_while_its_process_goes_on_writing(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "worker.log", most_bytes=2000, generations=2)
    says(log, "for number in range(1000): print('line', number)")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["worker.log", "worker.log.1", "worker.log.2"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    assert log.path.read_text().endswith("line 999\n")


def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "full.log")
    log.path.symlink_to("/dev/full")
    says(log, "print('written to a full disk')")
    assert log.last_words() == ["written to a full disk"]
