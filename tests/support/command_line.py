"""The `rag` command in this process, and an address that nobody answers at."""

from __future__ import annotations

import socket

from typer.testing import CliRunner, Result

from rag_service.cli import app


def rag(*arguments: str, said: str | None = None) -> Result:
    """`said` is what is typed, or piped in."""
    return CliRunner().invoke(app, list(arguments), input=said)


def nowhere() -> str:
    """An address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
