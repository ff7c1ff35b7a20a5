"""Calls of `rag mcp` that cannot be carried out: the error says what to do, and the server goes on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from rag_service.client import RagClient
from tests.support.command_line import nowhere, rag
from tests.support.peers.mcp_clients import COMMAND, ERAS, ROOT, over_stdio, said

pytestmark = pytest.mark.decoder_only("errors do not depend on the engine")

WRONG = {
    "unknown collection": ("search", {"question": "x", "collections": ["animal"]}, "did you mean 'animals'?"),
    "unknown collection asked": ("ask", {"question": "x", "collection": "none"}, "list_collections lists those"),
    "unknown document": ("read_passage", {"collection": "animals", "document_id": "no"}, "list_documents lists"),
    "unknown collection listed": ("list_documents", {"collection": "none"}, "list_collections lists those"),
    "whole document": ("ask", {"question": "x", "collection": "animals", "document_id": "no"}, "no document 'no'"),
    "unknown argument": ("search", {"question": "x", "collection": "animals"}, "did you mean 'collections'?"),
    "missing argument": ("ask", {}, "question: Field required"),
    "wrong type": ("search", {"question": "x", "top_k": "many"}, "top_k: Input should be a valid integer"),
    "out of range": ("search", {"question": "x", "top_k": 1000}, "top_k: Input should be less than or equal to"),
    "wrong mode": ("search", {"question": "x", "mode": "none"}, "'hybrid', 'dense' or 'lexical'"),
    "empty question": ("ask", {"question": "", "collection": "animals"}, "at least 1 character"),
    "blank question": ("ask", {"question": "  ", "collection": "animals"}, "the question is empty"),
    "wrong filter": ("search", {"question": "x", "collections": ["animals"], "filter": {"a": {"$no": 1}}}, "$no"),
    "filter of the wrong type": ("search", {"question": "x", "filter": "team"}, "filter: Input should be a valid dict"),
    "wrong session": ("ask", {"question": "x", "session_id": "a b"}, "session_id"),
}


@pytest.mark.parametrize("era", ERAS)
async def test_wrong_calls_say_what_to_do(live_url: str, tmp_path: Path, era: str) -> None:
    async with over_stdio(live_url, tmp_path, era=era) as client:
        for name, (tool, arguments, expected) in WRONG.items():
            result = await client.call_tool(tool, arguments)
            assert result.is_error, name
            assert expected.lower() in said(result).lower(), f"{name}: {said(result)}"
            assert "errors.pydantic.dev" not in said(result)
        with pytest.raises(MCPError, match="There is no tool 'delete'"):
            await client.call_tool("delete", {})
        assert not (await client.call_tool("list_collections")).is_error
    assert "Traceback" not in (tmp_path / "mcp.log").read_text()


async def test_no_collection_is_named(live_url: str, tmp_path: Path) -> None:
    with RagClient(live_url) as rag:
        for left in {one.name for one in rag.collections()} - {"animals"}:
            rag.delete_collection(left)  # by earlier tests
    async with over_stdio(live_url, tmp_path) as client:
        only = await client.call_tool("ask", {"question": "What jumps?"})
        assert not only.is_error, said(only)
        assert only.structured_content["collection"] == "animals"
        with RagClient(live_url) as rag, _collections(rag, "sea"):
            for tool in ("ask", "search"):
                result = await client.call_tool(tool, {"question": "What jumps?"})
                assert result.is_error
                assert said(result) == "Say which collection to search. There are animals, sea."
            with _collections(rag, "default"):
                assert not (await client.call_tool("search", {"question": "What jumps?"})).is_error


@contextlib.contextmanager
def _collections(rag: RagClient, name: str) -> Iterator[None]:
    rag.create_collection(name)
    yield
    rag.delete_collection(name)


async def test_no_stack_runs_and_then_one_does(live_url: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    async with over_stdio(None, tmp_path, RAG_DATA_DIR=str(data), RAG_PORT=nowhere().rpartition(":")[2]) as client:
        for tool, arguments in (("list_collections", {}), ("ask", {"question": "x", "collection": "animals"})):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert "Start the service with `rag up`" in said(result)
            assert "RAG_URL in the settings of this MCP server" in said(result)
        running = {"pid": os.getpid(), "url": live_url, "redis_url": "redis://127.0.0.1:1/0"}
        (data / "run.json").write_text(json.dumps(running))  # as `rag up` does
        assert not (await client.call_tool("list_collections")).is_error


@pytest.mark.parametrize("key", ["", "rag_notakey", "no key"])
async def test_a_key_is_missing_or_wrong(
    world: Any, serve: Callable[..., contextlib.AbstractContextManager[str]], tmp_path: Path, key: str
) -> None:
    with serve(world, open_without_key=False) as url:
        async with over_stdio(url, tmp_path, RAG_API_KEY=key) as client:
            result = await client.call_tool("list_collections")
            assert result.is_error
            assert "key" in said(result)
            assert key == "no key" or "Ask the user to set RAG_API_KEY" in said(result)


async def test_the_local_key_of_the_data_folder_is_sent(
    world: Any, serve: Callable[..., contextlib.AbstractContextManager[str]], tmp_path: Path
) -> None:
    with serve(world, open_without_key=False) as url:
        async with over_stdio(url, tmp_path, RAG_DATA_DIR=str(world.data_dir)) as client:
            assert not (await client.call_tool("list_collections")).is_error


async def test_broken_settings_and_another_program(live_url: str, tmp_path: Path) -> None:
    async with over_stdio(live_url, tmp_path, RAG_PORT="many") as client:
        result = await client.call_tool("list_collections")
        assert result.is_error
        assert "RAG_PORT" in said(result)
    async with over_stdio("nonsense", tmp_path) as client:
        result = await client.call_tool("list_collections")
        assert result.is_error
        assert "give one like http://127.0.0.1:8080" in said(result)
    async with over_stdio(f"{live_url}/elsewhere", tmp_path) as client:
        assert (await client.call_tool("list_collections")).is_error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--port", "1"], "--host and --port need --http"),
        (["--http", "--host", "0.0.0.0"], "0.0.0.0 is not a loopback address"),
        (["--http", "--host", "example.org"], "example.org is not a loopback address"),
        (["--http", "--host", "127.0.0.1:80"], "not a loopback address"),
        (["--url", "nonsense"], "give one like http://127.0.0.1:8080"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_wrong_usage_ends_with_a_message(arguments: list[str], expected: str) -> None:
    ended = rag("mcp", *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert expected in " ".join(ended.stderr.split())


def test_lines_that_are_not_the_protocol(live_url: str, tmp_path: Path) -> None:
    """Garbage is answered with errors, in the protocol, and the end of the input ends the server."""
    lines = [b"garbage", b"{}", b"[]", b"\xff\xfe", b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', b"1" * 100_000]
    ended = subprocess.run(
        COMMAND,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "RAG_URL": live_url},
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(line)["jsonrpc"] for line in ended.stdout.splitlines()]
