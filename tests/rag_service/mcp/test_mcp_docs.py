"""The configurations of docs/mcp.md: each starts, or reaches, a server that lists the reader's collections."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from rag_service.mcp.passage import MOST_CHARACTERS, ReadPassage
from rag_service.mcp.search import Search
from rag_service.mcp.server import TOOLS
from tests.support.markdown_blocks import blocks
from tests.support.peers.mcp_clients import COMMAND, ROOT, http_server, over_http, said

pytestmark = [pytest.mark.full, pytest.mark.decoder_only("configurations do not depend on the engine")]

PAGE = ROOT / "docs" / "mcp.md"
CONFIGURATIONS = [block for block in blocks(PAGE) if block.language == "json"]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=lambda block: block.where)
async def test_a_configuration_works(
    block: Any, world: Any, serve: Callable[..., contextlib.AbstractContextManager[str]], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    configuration = json.loads(block.code)
    (servers,) = (configuration[name] for name in ("servers", "mcpServers") if name in configuration)
    (server,) = servers.values()
    with serve(world, open_without_key=False) as url, contextlib.ExitStack() as stack:
        (data / "key").symlink_to(world.data_dir / "key")
        key = (data / "key").read_text().strip()
        (data / "run.json").write_text(json.dumps({"pid": 1, "url": url, "redis_url": world.redis_url}))
        if "url" in server:
            assert server["url"].endswith(":8090/mcp")
            address = stack.enter_context(http_server(url, tmp_path))
            (header,) = server["headers"].items()
            assert header[0] == "Authorization"
            assert header[1].startswith("Bearer ${")
            connected: Any = over_http(address, key)
        else:
            assert server["command"].endswith("/rag")
            changes = {"RAG_DATA_DIR": str(data), "RAG_URL": url, "RAG_API_KEY": key}
            environment = {name: changes[name] for name in server["env"]}
            parameters = StdioServerParameters(
                command=COMMAND[0],
                args=[*COMMAND[1:-1], *server["args"]],
                env={"PYTHONPATH": str(ROOT), **environment},
                cwd=tmp_path,
            )
            log = stack.enter_context((tmp_path / "mcp.log").open("w"))
            connected = Client(stdio_client(parameters, errlog=log))
        async with connected as client:
            assert "animals" in said(await client.call_tool("list_collections"))


def test_the_page_names_every_tool_and_argument() -> None:
    page = PAGE.read_text()
    for tool in TOOLS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{tool.name}` |")]
        for argument in tool.arguments.model_fields:
            assert f"`{argument}`" in row, f"{tool.name}: {argument}"
    assert f"`top_k` ({Search.model_fields['top_k'].default})" in page
    assert f"`around` ({ReadPassage.model_fields['around'].default})" in page
    assert f"{MOST_CHARACTERS:,} characters" in page
