"""langchain-rag-service as its users have it, beside the classes of the service's own environment."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

from tests.support.stacks import fresh_environment

BUILDER = Path(__file__).parents[3] / "scripts" / "langchain_package"
SEPARATE = "langchain_rag_service"
PACKAGES = ("rag_service.langchain", SEPARATE)
"""The packages that have the classes."""


def build(folder: Path, builder: Path = BUILDER) -> subprocess.CompletedProcess[str]:
    """Run the builder; `folder` gets the sdist and the wheel."""
    command = [sys.executable, str(builder), "--out", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel."""
    folder = tmp_path_factory.mktemp("built")
    told = build(folder)
    assert told.returncode == 0, told.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def about(wheel: Path) -> Message:
    """The wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="session")
def fresh_python(tmp_path_factory: pytest.TempPathFactory, wheel: Path, about: Message) -> Path:
    """The Python of an environment that has the wheel and what it requires, and nothing else."""
    needed = fresh_environment.required(about.get_all("Requires-Dist", []))
    python = fresh_environment.make(tmp_path_factory.mktemp("fresh"), needed.values())
    fresh_environment.install(python, wheel)
    return python


@pytest.fixture(scope="session")
def separate(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Any]:
    """The wheel's package, imported beside ours."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive, pytest.MonkeyPatch.context() as patch:
        archive.extractall(folder)
        patch.syspath_prepend(folder)
        yield importlib.import_module(SEPARATE)


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> Any:
    """A package that has the classes."""
    return request.getfixturevalue("separate") if request.param == SEPARATE else importlib.import_module(request.param)
