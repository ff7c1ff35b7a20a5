"""Stock Firefox as a browser for Playwright: it relays WebDriver BiDi, and fills in what Firefox leaves out.

Playwright sets the colour scheme of every context with `emulation.setMediaFeaturesOverride`, which Firefox does not
know; so it can make no context at all. The scheme of a whole Firefox can be set, by a preference. The relay agrees to
that scheme, and refuses any other.

Playwright knows a download by an id, which Firefox gives only to downloads that are navigations. The relay gives the
address as the id to what a page saves: every blob has an address of its own.

    python firefox_relay.py FIREFOX SCHEME ARGUMENT…      arguments as Playwright gives them to a Firefox
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

LISTENING = re.compile(r"WebDriver BiDi listening on ws://([\w.]+):(\d+)")


def answer(command: str, scheme: str) -> str | None:
    """What the relay says to a command in Firefox's place; None passes it on."""
    if '"emulation.setMediaFeaturesOverride"' not in command:
        return None
    asked = json.loads(command)
    if asked["method"] != "emulation.setMediaFeaturesOverride":
        return None
    wanted = asked["params"]["features"].get("prefers-color-scheme")
    if wanted in (None, scheme):
        return json.dumps({"type": "success", "id": asked["id"], "result": {}})
    message = f"this Firefox was started with the colour scheme {scheme}, it cannot have {wanted}"
    return json.dumps({"type": "error", "id": asked["id"], "error": "unsupported operation", "message": message})


def completed(event: str) -> str:
    """What Firefox tells, with an id where it tells of a download without one."""
    if '"browsingContext.download' not in event:
        return event
    told = json.loads(event)
    if str(told.get("method")).startswith("browsingContext.download") and not told["params"]["navigation"]:
        told["params"].setdefault("download", told["params"]["url"])
    return json.dumps(told)


async def relay(client: ServerConnection, address: str, scheme: str) -> None:
    """Pass messages both ways until one side closes."""
    async with connect(address, max_size=None, compression=None, proxy=None) as firefox:

        async def forth() -> None:
            async for command in client:
                said = answer(str(command), scheme)
                await (firefox.send(command) if said is None else client.send(said))
            await firefox.close()

        async def back() -> None:
            async for event in firefox:
                await client.send(completed(str(event)))
            await client.close()

        await asyncio.gather(forth(), back(), return_exceptions=True)


async def main(path: str, scheme: str, arguments: list[str]) -> int:
    """Run Firefox until it ends; its exit status."""
    firefox = await asyncio.create_subprocess_exec(path, *arguments, stderr=asyncio.subprocess.PIPE)
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, firefox.terminate)
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        told = line.decode(errors="replace")
        found = LISTENING.search(told)
        if found:
            address = f"ws://{found[1]}:{found[2]}/session"

            async def relayed(client: ServerConnection, address: str = address) -> None:
                await relay(client, address, scheme)

            server = await serve(relayed, "127.0.0.1", 0, max_size=None, compression=None)
            port = server.sockets[0].getsockname()[1]
            told = f"WebDriver BiDi listening on ws://127.0.0.1:{port}\n"
        print(told, end="", file=sys.stderr, flush=True)
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
