"""`rag mcp --http`: the official client over streamable HTTP, its key, and who is turned away."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.access.api_keys import ApiKeys
from tests.support.api_keys import add_key
from tests.support.peers.mcp_clients import ERAS, http_server, over_http, said

pytestmark = pytest.mark.decoder_only("the transport does not depend on the engine")

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def guarded_url(world: Any, serve: Callable[..., contextlib.AbstractContextManager[str]]) -> Iterator[str]:
    """The service as it is by default: it wants a key."""
    with serve(world, open_without_key=False) as url:
        yield url


@pytest.fixture
def local_key(world: Any, guarded_url: str) -> str:
    return str((world.data_dir / "key").read_text().strip())


@pytest.mark.parametrize("era", ERAS)
async def test_each_client_sends_its_own_key(
    guarded_url: str, local_key: str, world: Any, tmp_path: Path, era: str
) -> None:
    told: list[str | None] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message)

    (tmp_path / ".rag").mkdir()
    (tmp_path / ".rag" / "key").symlink_to(world.data_dir / "key")
    with http_server(guarded_url, tmp_path) as address:
        async with over_http(address, local_key, era) as client, over_http(address, era=era) as stranger:
            asked = {"question": "What jumps?", "collection": "animals"}
            answer = await client.call_tool("ask", asked, progress_callback=progress)
            assert answer.structured_content["answer"] == world.stage.text, said(answer)
            assert answer.structured_content["citations"][0]["title"] == "Foxes"
            for tool, arguments in (("ask", asked), ("list_collections", {})):
                refused = await stranger.call_tool(tool, arguments)
                assert refused.is_error, "the server's own local key is not lent"
                assert "send the header `Authorization: Bearer KEY`" in said(refused)
        async with over_http(address, "rag_wrong", era) as wrong:
            assert "refused the API key" in said(await wrong.call_tool("list_collections"))
    assert world.stage.text in told


async def test_a_key_of_the_server_serves_those_without_one(guarded_url: str, local_key: str, tmp_path: Path) -> None:
    with http_server(guarded_url, tmp_path, "--api-key", local_key) as address:
        async with over_http(address) as client, over_http(address, "rag_wrong") as wrong:
            assert not (await client.call_tool("list_collections")).is_error
            assert (await wrong.call_tool("list_collections")).is_error


async def test_clients_of_one_server_see_what_their_keys_show(guarded_url: str, world: Any, tmp_path: Path) -> None:
    keys = ApiKeys(world.place.client)
    asked = {"question": "What jumps?", "collection": "animals"}
    mine = add_key(keys, "assistant", "default", role="reader")[1]
    other = add_key(keys, "other", "default", role="reader", collections=["sea"])[1]
    with http_server(guarded_url, tmp_path) as address:
        async with over_http(address, mine) as client, over_http(address, other) as stranger:
            seen = await client.call_tool("list_collections")
            assert "animals" in {one["name"] for one in seen.structured_content["collections"]}
            assert (await stranger.call_tool("list_collections")).structured_content["collections"] == []
            assert not (await client.call_tool("ask", asked)).is_error
            hidden = await stranger.call_tool("ask", asked)
    assert "no collection 'animals'" in said(hidden)


@pytest.fixture(scope="module")
def open_address(_live: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One `rag mcp --http` for the tests that send requests of their own, over a service that wants no key."""
    with http_server(_live, tmp_path_factory.mktemp("mcp")) as address:
        yield address


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Host": "evil.example:80"}]
)
def test_web_pages_and_other_hosts_are_turned_away(open_address: str, headers: dict[str, str]) -> None:
    assert httpx.post(open_address, json=HELLO, headers=ACCEPT).status_code == 200
    assert httpx.post(open_address, json=HELLO, headers={**ACCEPT, **headers}).status_code in (403, 421)


@pytest.mark.parametrize("header", ["Basic abc", "Bearer", "rag_key"])
def test_a_header_that_is_no_key(open_address: str, header: str) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_collections", "arguments": {}}}
    with httpx.Client(headers=ACCEPT) as http:
        begun = http.post(open_address, json=HELLO)
        session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        http.post(open_address, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        text = http.post(open_address, json=call, headers={**session, "Authorization": header}).text
    assert "cannot be read. Send one, as `Authorization: Bearer KEY`" in text
    assert '"isError":true' in text.replace(" ", "")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "::1"])
async def test_other_loopback_addresses(live_url: str, tmp_path: Path, host: str) -> None:
    try:
        with http_server(live_url, tmp_path, "--host", host) as address:
            async with over_http(address) as client:
                assert not (await client.call_tool("list_collections")).is_error
    except AssertionError as error:
        if "Cannot listen on ::1" not in str(error):
            raise
        pytest.skip("this machine has no IPv6")
