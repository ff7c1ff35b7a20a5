"""`rag mcp`: the running stack as an MCP server, for assistants and editors."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from rag_service.access import local_key
from rag_service.cli.console import CliError, err
from rag_service.cli.options import Url
from rag_service.cli.stack.connect import address_of, key_for
from rag_service.cli.stack.serve import LOG_FORMAT, bind
from rag_service.client import RagError
from rag_service.settings import load_settings
from rag_service.stack.exit_status import USAGE

HOST = "127.0.0.1"
PORT = 8090


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP instead of standard input.")] = False,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help=f"With --http: loopback address.  [default: {HOST}]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"With --http: port to listen on.  [default: {PORT}]", min=0, max=65535),
    ] = None,
    url: Url = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            help="API key.  [default: RAG_API_KEY, else the local key; with --http: that of each request]",
        ),
    ] = None,
) -> None:
    """Let assistants and editors search and ask your documents: an MCP server over the running stack.

    Clients start it and speak over standard input and output. With --http, they send their own key, as `Authorization:
    Bearer KEY`; --api-key serves those that send none, whoever on this machine they are.
    """
    if not http and (host is not None or port is not None):
        raise CliError("--host and --port need --http; without it, clients start `rag mcp` themselves.", USAGE)
    if host is not None and not local_key.is_loopback(f"http://{f'[{host}]' if ':' in host else host}"):
        raise CliError(
            f"{host[:80]} is not a loopback address. The connection is not encrypted, so only this machine may use it: "
            f"leave out --host, and run `rag mcp` on the machine of its client.",
            USAGE,
        )
    if url is not None:
        address_of(load_settings(), url)
    from rag_service.mcp import Place, create_server

    def locate() -> Place:
        """Called for every call of a tool: the stack may start, or move, while the client runs."""
        settings = load_settings()
        try:
            address = address_of(settings, url)
            return Place(address, (api_key or None) if http else key_for(address, api_key, settings))
        except CliError as error:
            raise RagError(str(error)) from None

    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    server = create_server(locate)
    if not http:
        from rag_service.mcp.stdio import serve_stdio

        serve_stdio(server)
        return
    from rag_service.mcp.http import PATH, serve_http

    host = HOST if host is None else host
    bound = bind(host, PORT if port is None else port)
    named = f"[{host}]" if ":" in host else host
    err().print(f"MCP server at http://{named}:{bound.getsockname()[1]}{PATH}; Ctrl-C stops it.")
    serve_http(server, host, bound)
