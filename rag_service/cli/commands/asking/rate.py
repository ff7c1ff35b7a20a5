"""`rag rate ID up|down`: what you think of an answer."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from rag_service.cli.console import out, print_json
from rag_service.cli.options import ApiKey, Json, Url, named
from rag_service.cli.stack.connect import connect
from rag_service.client import calls


def rate(
    answer: Annotated[str, typer.Argument(metavar="ID", help="Id of the answer; `rag ask` prints it.", callback=named)],
    rating: Annotated[Literal["up", "down"], typer.Argument(metavar="up|down", help="A good answer, or a bad one.")],
    comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why.  [default: none]")] = "",
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Say whether an answer is good; it replaces what you said of it before. `rag feedback` shows what all say."""
    with connect(url, api_key) as api:
        said = api.json(calls.rate(answer, rating, comment))
    if as_json:
        print_json(said)
    else:
        out().print(f"Rated {answer} {rating}.")
