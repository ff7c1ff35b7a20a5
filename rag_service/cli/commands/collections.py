"""`rag collections list|delete`: what there is to ask about. `rag ingest` makes collections."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer
from rich.filesize import decimal

from rag_service.cli.console import err, out, print_json
from rag_service.cli.options import ApiKey, Json, Url, example
from rag_service.cli.stack.connect import connect

app = typer.Typer(help="Collections: list, delete. `rag ingest` makes them.", no_args_is_help=True)


@app.command("list", epilog=example("rag collections list"))
def list_collections(url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """List the collections with what they hold."""
    with connect(url, api_key) as api:
        found = api.request("GET", "/v1/collections")
    if as_json:
        print_json(found)
        return
    for one in found["collections"]:
        documents, chunks = (
            f"{one[name]} {name[: -1 if one[name] == 1 else None]}" for name in ("documents", "chunks")
        )
        holds = f"{documents}  {chunks}  {decimal(one['bytes'])}"
        out().print(f"{one['name']}  {holds}", markup=False)
    if not found["collections"]:
        err().print("There are no collections; `rag ingest PATH…` makes one.", markup=False)


@app.command("delete", epilog=example("rag collections delete notes"))
def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")],
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Delete a collection with all its documents."""
    with connect(url, api_key) as api:
        api.request("DELETE", f"/v1/collections/{quote(name, safe='')}")
    if as_json:
        print_json({"deleted": name})
    else:
        out().print(f"Deleted {name}.", markup=False)
