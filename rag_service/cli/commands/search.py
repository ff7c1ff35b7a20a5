"""`rag search "…"`: the passages alone."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.console import out, print_json
from rag_service.cli.options import ApiKey, Json, Url
from rag_service.cli.stack.connect import connect
from rag_service.prompting.prompt import heading_line


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to look for.")],
    collection: Annotated[
        str, typer.Option("--collection", "-c", metavar="NAME", help="Collection to search.")
    ] = DEFAULT_COLLECTION,
    top_k: Annotated[int | None, typer.Option(metavar="N", help="Passages to find.", min=1)] = None,
    mode: Annotated[Literal["hybrid", "dense", "lexical"], typer.Option(help="hybrid, dense or lexical.")] = "hybrid",
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Find passages: retrieval alone, without an answer."""
    body = {"question": question, "mode": mode, **({"top_k": top_k} if top_k is not None else {})}
    with connect(url, api_key) as api:
        found = api.request("POST", f"/v1/collections/{collection}/search", json=body)
    if as_json:
        print_json(found)
        return
    screen = out()
    for passage in found["passages"]:
        title = heading_line(passage)
        screen.print(f"[{passage['rank']}] {title}  ({passage['document_id']}, {passage['score']:.4f})", markup=False)
        screen.print(f"{passage['text'].strip()}\n", markup=False)
    if not found["passages"]:
        screen.print("Nothing was found.")
