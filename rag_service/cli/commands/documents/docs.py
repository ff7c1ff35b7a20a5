"""`rag docs list|show|delete`: the documents of a collection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.api import Api, Rejected
from rag_service.cli.choice import choose
from rag_service.cli.confirm import Yes, asks, confirm
from rag_service.cli.console import CliError, count, err, local_time, out, print_json
from rag_service.cli.options import ApiKey, InCollection, Json, OneCollection, Url, example, named
from rag_service.cli.stack.connect import connect
from rag_service.client import calls
from retriever.dates import iso_date

PAGE = 500
"""Documents that one request fetches."""
MOST_NAMED = 3
"""Most documents that are named in place of one that is not there."""

app = typer.Typer(help="Documents of a collection: list, show, delete.", no_args_is_help=True)
DocumentId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the document; `rag docs list` shows it.", callback=named)
]


@app.command("list", epilog=example("rag docs list -c notes"))
def list_documents(
    collection: OneCollection = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of documents.", min=1)] = 1000,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List the documents of a collection, ordered by id.

    The date that they are `dated`, in JSON the metadata's `date`, decides between versions of a document.
    """
    documents: list[dict[str, Any]] = []
    after: str | None = ""
    with connect(url, api_key) as api:
        name = _named(api, collection)
        while after is not None and len(documents) < limit:
            page = api.json(calls.documents(name, min(PAGE, limit - len(documents)), after))
            documents += page["documents"]
            after = page["next"]
    if as_json:
        print_json({"collection": name, "documents": documents})
        return
    for document in documents:
        sizes = f"{count(document['chunks'], 'chunk')}  {decimal(document['bytes'])}"
        date = iso_date(document["metadata"].get("date"))
        times = f"ingested {local_time(document['updated'])}{f'  dated {date}' if date else ''}"
        out().print(f"{document['document_id']}  {times}  {sizes}  {document['title']}")
    if not documents:
        err().print(f"There are no documents in {name!r}.")


def _named(api: Api, collection: str | None) -> str:
    return collection or choose(api, reading=True)[0] or DEFAULT_COLLECTION


@contextlib.contextmanager
def naming(api: Api, collection: str, document: str) -> Iterator[None]:
    """Names the documents that may be meant where none has this id: ids hold the names of their files."""
    try:
        yield
    except Rejected as rejected:
        if rejected.code != "unknown_document":
            raise
        page = api.json(calls.documents(collection, PAGE, ""))["documents"]
        name = document.replace("/", "-").casefold()
        ids = [one["document_id"] for one in page if name in one["document_id"].casefold()]
        ids = ids or [one["document_id"] for one in page if name == one["title"].casefold()]
        if not ids:
            raise
        raise CliError(f"{rejected} Did you mean {' or '.join(ids[:MOST_NAMED])}?", rejected.status) from None


@app.command("show", epilog=example("rag docs show notes-backups.md-905d7e9011 -c notes"))
def show(
    document: DocumentId,
    collection: OneCollection = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Print the text of a document. The offsets of citations point into it."""
    with connect(url, api_key) as api:
        name = _named(api, collection)
        with naming(api, name, document):
            content = api.json(calls.document(name, document))
    if as_json:
        print_json(content)
    else:
        print(content["text"])


@app.command("delete", epilog=example("rag docs delete notes-backups.md-905d7e9011 -c notes"))
def delete(
    documents: Annotated[
        list[str], typer.Argument(metavar="ID", help="Document ids; `rag docs list` shows them.", callback=named)
    ],
    collection: InCollection = DEFAULT_COLLECTION,
    yes: Yes = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Delete documents. Asks first. Answers that cite them keep their passages."""
    if asks(yes):
        which = f"the document {documents[0]!r}" if len(documents) == 1 else f"these {len(documents)} documents"
        confirm(f"Delete {which} of the collection {collection!r}?")
    with connect(url, api_key) as api:
        for document in documents:
            with naming(api, collection, document):
                api.send(calls.delete_document(collection, document))
            if not as_json:
                out().print(f"Deleted {document}.")
    if as_json:
        print_json({"collection": collection, "deleted": documents})
