"""The protocol over standard input and output, for clients that start `rag mcp` themselves.

Nothing else may write to standard output. While it serves, the SDK points the descriptor at standard error for everyone
else, and `sys.stdout`, whose buffer would outlast that, is standard error here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from rag_service.stack.exit_status import INTERRUPTED


def serve_stdio(server: Server[Any]) -> None:
    """Serve the one client at standard input until it ends its side, or a signal comes. Running calls are cancelled."""
    anyio.run(_serve, server)


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        with contextlib.redirect_stdout(sys.stderr):
            stopped = await _run(server, incoming, outgoing)
        if stopped:
            os._exit(INTERRUPTED)  # a thread still waits for a line of standard input, and nothing else ends that


async def _run(server: Server[Any], incoming: Any, outgoing: Any) -> bool:
    """Serve until the client ends its side; returns whether a signal came first."""
    stopped = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_until_signal, group.cancel_scope, stopped)
        await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()
    return stopped.is_set()


async def _until_signal(scope: anyio.CancelScope, stopped: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            stopped.set()
            scope.cancel()
            return
