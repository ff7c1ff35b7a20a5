"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[str | None, typer.Option("--url", help="Address of the API.  [default: the running stack's]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", help="Key of the API, where it wants one.  [default: RAG_API_KEY]")
]
InCollection = Annotated[str, typer.Option("--collection", "-c", help="Collection that it is in.")]
Collection = Annotated[str | None, typer.Option("--collection", "-c", help="Collection to use.")]


def example(*lines: str) -> str:
    """Command lines as they end a command's `--help`: one a line, not wrapped."""
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])
