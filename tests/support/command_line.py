"""The `rag` command in this process, and an address that nobody answers at."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from rag_service.cli import app


def rag(*arguments: str, said: str | None = None) -> Result:
    """`said` is what is typed, or piped in."""
    return CliRunner().invoke(app, list(arguments), input=said)


def rag_in(folder: Path, settings: Mapping[str, str], *arguments: str) -> Result:
    """`rag` as started in a folder, with these environment variables and no other `RAG_` ones."""
    unset = {name: None for name in os.environ if name.startswith("RAG_")}
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, list(arguments), env={**unset, **settings})


def nowhere() -> str:
    """An address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
