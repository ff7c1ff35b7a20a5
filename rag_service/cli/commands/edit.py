"""`rag edit ANSWER "…"`: a new version of an answer."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rag_service.cli.commands.ask import follow, show
from rag_service.cli.console import out, print_json
from rag_service.cli.options import ApiKey, Exact, Json, MaxTokens, Seed, SpeculationName, Temperature, Url
from rag_service.cli.stack.connect import connect


def edit(
    answer: Annotated[str, typer.Argument(metavar="ANSWER", help="Id of the answer; `rag ask` prints it.")],
    instruction: Annotated[str, typer.Argument(metavar="INSTRUCTION", help="What to change about it.")],
    speculation: SpeculationName = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Change an answer: prints the whole new version. Ctrl-C cancels it."""
    body: dict[str, Any] = {
        "instruction": instruction,
        "temperature": temperature,
        "exact": exact,
        "stream": True,
    }
    chosen = {"speculation": speculation, "max_tokens": max_tokens, "seed": seed}
    body |= {name: value for name, value in chosen.items() if value is not None}
    with connect(url, api_key) as api:
        made = follow(api, body, None if as_json else out(), f"/v1/answers/{answer}/edits")
    if as_json:
        print_json(made)
    else:
        show(made, out())
