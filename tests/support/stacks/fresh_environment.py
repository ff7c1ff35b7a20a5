"""A virtual environment that has some distributions of this one, with what they require, and nothing else.

Their files are links, so nothing is downloaded.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def required(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that meet requirements, and those that they require in turn, by name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        requirement = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = distribution(requirement.name)
            waiting += [Requirement(line) for line in found[name].requires or ()]
    return found


def make(folder: Path, distributions: Iterable[Distribution]) -> Path:
    """Create the environment. Returns its Python."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for one in distributions:
        for file in one.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                link = site / file
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(str(one.locate_file(file))))
    return folder / "bin" / "python"


def install(python: Path, wheel: Path) -> None:
    """Install a wheel, whose requirements must be there. Fails if one is not."""
    command = [sys.executable, "-m", "pip", "--isolated", "--python", str(python)]
    subprocess.run([*command, "install", "--no-index", "--quiet", str(wheel)], check=True)
    subprocess.run([*command, "check"], check=True, stdout=subprocess.DEVNULL)
