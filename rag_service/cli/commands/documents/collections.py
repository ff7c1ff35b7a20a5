"""`rag collections list|rename|delete|copy|reindex`. `rag ingest` creates collections."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.filesize import decimal

from rag_service.cli.commands.documents import moving
from rag_service.cli.confirm import Yes, asks, confirm
from rag_service.cli.console import count, err, out, print_json, print_result
from rag_service.cli.options import ApiKey, Json, Url, example, named
from rag_service.cli.stack.connect import connect
from rag_service.client import calls

app = typer.Typer(
    help="Collections: list, rename, delete, copy, reindex. `rag ingest` creates them.", no_args_is_help=True
)


@app.command("list", epilog=example("rag collections list"))
def list_collections(url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """List the collections and their sizes."""
    with connect(url, api_key) as api:
        collections = api.json(calls.collections())
    if as_json:
        print_json(collections)
        return
    for collection in collections["collections"]:
        sizes = f"{count(collection['documents'], 'document')}  {count(collection['chunks'], 'chunk')}"
        out().print(f"{collection['name']}  {sizes}  {decimal(collection['bytes'])}")
    if not collections["collections"]:
        err().print("There are no collections. `rag ingest PATH…` makes one.")


@app.command("rename", epilog=example("rag collections rename notes field-notes"))
def rename(
    name: Annotated[str, typer.Argument(metavar="OLD", help="Name of the collection.", callback=named)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name, which no collection has.", callback=named)],
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Rename a collection, in one step. Its documents stay as they are, and conversations go on under the new name.

    What names the collection elsewhere keeps the old name: keys limited to it, settings, and commands such as `rag sync
    --watch`, which would create a collection of that name anew. Rejected while an ingest of the collection is under way
    or its index is being built anew.
    """
    with connect(url, api_key) as api:
        collection = api.json(calls.rename_collection(name, new))
    text = f"Renamed {name} to {new}. Keys limited to {name}, settings and scripts that name it keep the old name."
    print_result(collection, text, as_json)


@app.command("delete", epilog=example("rag collections delete notes", "rag collections delete notes --yes"))
def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.", callback=named)],
    yes: Yes = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Delete a collection with all its documents. Asks first."""
    with connect(url, api_key) as api:
        if asks(yes):
            documents = api.send(calls.collection(name)).documents
            confirm(f"Delete the collection {name!r} with {count(documents, 'document')}?")
        api.send(calls.delete_collection(name))
    print_result({"deleted": name}, f"Deleted {name}.", as_json)


app.command(
    "copy",
    epilog=example(
        "rag collections copy notes --to postgresql://rag@db.example.com/rag",
        "rag collections copy notes --to /srv/archive --as notes-2026",
    ),
)(moving.copy)
app.command(
    "reindex",
    epilog=example(
        "rag collections reindex notes --chunk-size 600",
        "rag collections reindex notes --embedding-model BAAI/bge-m3 --prepare",
    ),
)(moving.reindex)
