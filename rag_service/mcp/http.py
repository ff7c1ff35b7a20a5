"""The protocol over streamable HTTP, on a loopback address. Clients send their own key, which goes to the service."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

PATH = "/mcp"
GRACE_S = 3


def serve_http(server: Server[Any], host: str, bound: socket.socket) -> None:
    """Serve until a signal comes. Requests of web pages of other origins, and for other hosts, are refused.

    Args:
        host: the loopback address, as clients write it.
        bound: listens on it.
    """
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    security = TransportSecuritySettings(
        allowed_hosts=[f"{name}:*" for name in names], allowed_origins=[f"http://{name}:*" for name in names]
    )
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    config = uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=GRACE_S)
    uvicorn.Server(config).run(sockets=[bound])
