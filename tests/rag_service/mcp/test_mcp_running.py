"""Calls of `rag mcp` that run: they are cancelled with their answers, and they do not wait for each other."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.support.peers.mcp_clients import COMMAND, ERAS, ROOT, http_server, over_http, over_stdio, said

pytestmark = pytest.mark.decoder_only("how calls run does not depend on the engine")

LOUD = """
import json, os, sys
plain = json.loads
def loud(*given, **options):
    if "rag_service.mcp.stdio" in sys.modules:
        print("LOUD")
        os.write(1, b"LOUD")
    return plain(*given, **options)
json.loads = loud
"""
"""Makes every response of the service print something."""
ASKED = {"question": "What jumps?", "collection": "animals"}


class Answers:
    """The answers of a test, as the service keeps them."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._before = self._keys()

    def _keys(self) -> set[str]:
        client = self._world.place.client
        return {key for key in client.scan_iter("rag:*:answer:*") if client.type(key) == "hash"}

    def all_cancelled(self) -> None:
        """Wait until each was cancelled and has ended."""
        client, stage = self._world.place.client, self._world.stage
        keys = self._keys() - self._before
        assert keys
        while not all(client.exists(f"{key}:cancel") or client.hget(key, "result") for key in keys):
            time.sleep(0.01)
        for seen in list(self._world.place.cancels._watched):
            assert seen.wait(30)
        stage.open.set()
        while not all(client.hget(key, "result") for key in keys):
            time.sleep(0.01)
        assert {json.loads(client.hget(key, "result"))["finish_reason"] for key in keys} == {"cancelled"}


@pytest.fixture
def answers(world: Any) -> Answers:
    return Answers(world)


async def _cancelled(client: Client, world: Any, answers: Answers) -> None:
    """Ask, cancel the call once the answer is being written, and see that the answer was cancelled."""
    world.stage.hold_at = 3
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "ask", ASKED)
        assert await anyio.to_thread.run_sync(world.stage.waiting.wait, 30)
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(answers.all_cancelled)


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_cancels_its_answer(
    live_url: str, world: Any, answers: Answers, tmp_path: Path, era: str
) -> None:
    async with over_stdio(live_url, tmp_path, era=era) as client:
        await _cancelled(client, world, answers)
        world.stage.hold_at = None
        again = await client.call_tool("ask", ASKED)
        assert again.structured_content["finish_reason"] == "stop", said(again)
    assert "Traceback" not in (tmp_path / "mcp.log").read_text()


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_over_http_cancels_its_answer(
    live_url: str, world: Any, answers: Answers, tmp_path: Path, era: str
) -> None:
    with http_server(live_url, tmp_path) as address:
        async with over_http(address, era=era) as client:
            await _cancelled(client, world, answers)
            world.stage.hold_at = None
            again = await client.call_tool("ask", ASKED)
            assert again.structured_content["finish_reason"] == "stop", said(again)


async def test_a_client_that_leaves_cancels_its_answer(
    live_url: str, world: Any, answers: Answers, tmp_path: Path
) -> None:
    world.stage.hold_at = 3

    async def leave() -> None:
        async with over_stdio(live_url, tmp_path) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ask", ASKED)
            assert await anyio.to_thread.run_sync(world.stage.waiting.wait, 30)
            raise KeyError("the client ends")

    with pytest.raises(ExceptionGroup):
        await leave()
    await anyio.to_thread.run_sync(answers.all_cancelled)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_cancels_its_answers(
    live_url: str, world: Any, answers: Answers, tmp_path: Path, number: signal.Signals
) -> None:
    world.stage.hold_at = 3
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": ASKED}},
    ]
    with subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "RAG_URL": live_url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
        assert world.stage.waiting.wait(30)
        process.send_signal(number)
        answers.all_cancelled()
        assert process.wait(30) == 130
        assert [json.loads(line)["jsonrpc"] for line in process.stdout]


async def test_calls_run_beside_each_other(live_url: str, world: Any, tmp_path: Path) -> None:
    """While one answer waits in the middle, others of the same client are given, and searches too."""
    world.stage.hold_at = 3
    results: dict[int, Any] = {}

    async def call(number: int, client: Client, tool: str, arguments: dict[str, Any]) -> None:
        results[number] = await client.call_tool(tool, arguments)

    async with over_stdio(live_url, tmp_path) as client, over_stdio(live_url, tmp_path) as other:
        async with anyio.create_task_group() as group:
            for number, one in enumerate((client, client, other)):
                group.start_soon(call, number, one, "ask", ASKED)
            assert await anyio.to_thread.run_sync(world.stage.waiting.wait, 30)
            for number, one in enumerate((client, other), 3):
                await call(number, one, "search", {"question": "fox", "collections": ["animals"]})
            assert not {0, 1, 2} & set(results)
            world.stage.open.set()
        assert len({results[number].structured_content["session_id"] for number in (0, 1, 2)}) == 3
    assert [results[number].structured_content["answer"] for number in (0, 1, 2)] == [world.stage.text] * 3
    assert results[3].structured_content == results[4].structured_content


def test_nothing_but_the_protocol_goes_to_standard_output(live_url: str, tmp_path: Path) -> None:
    """Even what a library prints while a tool runs."""
    (tmp_path / "sitecustomize.py").write_text(LOUD)
    messages = [
        {"id": 1, "method": "tools/list", "params": _META},
        {"id": 2, "method": "tools/call", "params": {"name": "list_collections", "arguments": {}, **_META}},
    ]
    with subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "", "RAG_URL": live_url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        answered = []
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            answered.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.stdout.read() == b""
        assert b"LOUD" in process.stderr.read()
    assert [one["id"] for one in answered] == [1, 2]
    assert answered[1]["result"]["structuredContent"]["collections"]


_META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
