"""`rag docs list|show|delete`: the documents of a collection."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.filesize import decimal

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.console import err, out, print_json
from rag_service.cli.options import ApiKey, InCollection, Json, Url, example
from rag_service.cli.stack.connect import connect

PAGE = 500
"""Documents that one request asks for."""

app = typer.Typer(help="Documents of a collection: list, show, delete.", no_args_is_help=True)
DocumentId = Annotated[str, typer.Argument(metavar="ID", help="Id of the document; `rag docs list` has it.")]


@app.command("list", epilog=example("rag docs list -c notes"))
def list_documents(
    collection: InCollection = DEFAULT_COLLECTION,
    limit: Annotated[int, typer.Option(metavar="N", help="Most documents to list.", min=1)] = 1000,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List the documents of a collection in order of their ids."""
    found: list[dict[str, Any]] = []
    after: str | None = ""
    with connect(url, api_key) as api:
        while after is not None and len(found) < limit:
            params = {"limit": min(PAGE, limit - len(found)), "after": after}
            page = api.request("GET", f"{_path(collection)}", params=params)
            found += page["documents"]
            after = page["next"]
    if as_json:
        print_json({"collection": collection, "documents": found})
        return
    for document in found:
        when = datetime.fromtimestamp(document["updated"], UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        chunks = f"{document['chunks']} chunk{'s' * (document['chunks'] != 1)}"
        line = f"{document['document_id']}  {when}  {chunks}  {decimal(document['bytes'])}  {document['title']}"
        out().print(line, markup=False)
    if not found:
        err().print(f"There are no documents in {collection!r}.", markup=False)


@app.command("show", epilog=example("rag docs show notes-backups.md-905d7e9011 -c notes"))
def show(
    document: DocumentId,
    collection: InCollection = DEFAULT_COLLECTION,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Print a document's text: the characters that the offsets of citations count."""
    with connect(url, api_key) as api:
        found = api.request("GET", _path(collection, document))
    if as_json:
        print_json(found)
    else:
        print(found["text"])


@app.command("delete", epilog=example("rag docs delete notes-backups.md-905d7e9011 -c notes"))
def delete(
    documents: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids; `rag docs list` has them.")],
    collection: InCollection = DEFAULT_COLLECTION,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Delete documents. Answers that cite them keep the passages they were given."""
    with connect(url, api_key) as api:
        for document in documents:
            api.request("DELETE", _path(collection, document))
            if not as_json:
                out().print(f"Deleted {document}.", markup=False)
    if as_json:
        print_json({"collection": collection, "deleted": documents})


def _path(collection: str, document: str | None = None) -> str:
    path = f"/v1/collections/{quote(collection, safe='')}/documents"
    return path if document is None else f"{path}/{quote(document)}"
