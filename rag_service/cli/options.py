"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[str | None, typer.Option("--url", help="Address of the API.  [default: the running stack's]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", help="Key of the API, where it wants one.  [default: RAG_API_KEY]")
]
Collection = Annotated[str | None, typer.Option("--collection", "-c", help="Collection to use.")]
