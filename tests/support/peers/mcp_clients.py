"""`rag mcp` as a process, and the official MCP client at its other end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "rag_service.cli", "mcp"]
ERAS = ["auto", pytest.param("legacy", marks=pytest.mark.full)]
"""How a client connects: by the newest protocol, or by the handshake of all earlier ones."""


@contextlib.asynccontextmanager
async def over_stdio(
    url: str | None, folder: Path, *arguments: str, era: str = "auto", **settings: str
) -> AsyncIterator[Client]:
    """A client of `rag mcp`, started in `folder`, over the service at `url`.

    Args:
        settings: more variables of its environment.
    """
    place = {} if url is None else {"RAG_URL": url}
    server = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], *arguments],
        env={"PYTHONPATH": str(ROOT), **place, **settings},
        cwd=folder,
    )
    with (folder / "mcp.log").open("a") as log:
        async with Client(stdio_client(server, errlog=log), mode=era) as client:
            yield client


@contextlib.contextmanager
def http_server(url: str, folder: Path, *arguments: str) -> Iterator[str]:
    """`rag mcp --http` on a free port; the address it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    process = subprocess.Popen(
        [*COMMAND, "--http", "--port", "0", "--url", url, *arguments],
        env={**environment, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        assert said.startswith("MCP server at http://"), said + process.stderr.read()
        yield said.removeprefix("MCP server at ").partition(";")[0]
    finally:
        process.terminate()
        printed, _ = process.communicate(timeout=30)
        assert printed == ""


@contextlib.asynccontextmanager
async def over_http(address: str, key: str | None = None, era: str = "auto") -> AsyncIterator[Client]:
    """A client of an MCP server at an address; `key` is sent as clients' `headers` are."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(address, http_client=http), mode=era) as client,
    ):
        yield client


def said(result: Any) -> str:
    """The text of a tool's result."""
    (content,) = result.content
    return str(content.text)
