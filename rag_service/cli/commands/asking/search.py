"""`rag search "…"`: passages without an answer."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.choice import choose
from rag_service.cli.console import out, print_json
from rag_service.cli.headings import shown_heading
from rag_service.cli.metadata import Where, filter_of
from rag_service.cli.options import ApiKey, Json, TopK, Url, sentence
from rag_service.cli.stack.connect import connect
from rag_service.client import calls


def search(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What to search for.")],
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            "-c",
            metavar="NAME",
            help="Collection to search.  [default: `default` if it exists, else the only one]",
        ),
    ] = None,
    top_k: TopK = None,
    mode: Annotated[Literal["hybrid", "dense", "lexical"], typer.Option(help="hybrid, dense or lexical.")] = "hybrid",
    neighbours: Annotated[
        int, typer.Option(metavar="N", help="Also so many chunks before and after each.", min=0, max=5)
    ] = 0,
    section: Annotated[bool, typer.Option("--section", help="Also the section that each is in.")] = False,
    where: Where = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Find passages, without an answer."""
    condition = filter_of(where)
    with connect(url, api_key, asking=True) as api:
        name = collection or choose(api)[0] or DEFAULT_COLLECTION
        result = api.json(calls.search(name, sentence(question), top_k, mode, condition, neighbours, section))
    if as_json:
        print_json(result)
        return
    screen = out()
    for number, passage in enumerate(result["passages"]):
        if number:
            screen.print()
        title = shown_heading(passage)
        screen.print(f"[{passage['rank']}] {title}  ({passage['document_id']}, score {passage['score']:.4f})")
        screen.print(f"{passage['text'].strip()}")
    if not result["passages"]:
        screen.print("No passages were found.")
