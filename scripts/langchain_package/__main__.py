"""Builds an sdist and a wheel of langchain-rag-service. See scripts/langchain-package."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reproducible import EPOCH, pack_again
from source_tree import write

ROOT = Path(__file__).parents[2]
HOOK = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/langchain-package", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "langchain-package", help="folder to write to")
    out = parser.parse_args().out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)  # the archives hold the files' modes
    with tempfile.TemporaryDirectory() as temporary:
        source, unpacked = Path(temporary, "source"), Path(temporary, "unpacked")
        source.mkdir()
        try:
            write(ROOT, source)
        except ValueError as error:
            sys.exit(f"scripts/langchain-package: {error}")
        sdist = pack_again(build("build_sdist", source, Path(temporary, "sdist")), out)
        shutil.unpack_archive(sdist, unpacked)
        (folder,) = unpacked.iterdir()
        wheel = Path(shutil.copy(build("build_wheel", folder, Path(temporary, "wheel")), out))
    print(sdist, wheel, sep="\n")


def build(hook: str, source: Path, out: Path) -> Path:
    """What a hook of setuptools (PEP 517) makes of a folder, in a process of its own."""
    out.mkdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = [sys.executable, "-c", HOOK, hook, str(out)]
    told = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    if told.returncode:
        sys.exit(f"{told.stdout}{told.stderr}")
    (built,) = out.iterdir()
    return built


if __name__ == "__main__":
    main()
