"""`rag sessions`: the sessions there are, and what one of them holds and takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.filesize import decimal

from rag_service.cli.connect import connect
from rag_service.cli.console import out, print_json
from rag_service.cli.options import ApiKey, Json, Url

SHOWN = 60
"""Characters of a question that the list shows."""


def sessions(
    session: Annotated[str | None, typer.Argument(help="Show this one's turns and memory.")] = None,
    limit: Annotated[int, typer.Option(help="Most sessions to list.", min=1, max=1000)] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List sessions, the latest first; or show the turns of one, and what it takes in Redis."""
    with connect(url, api_key) as api:
        if session is None:
            found = api.request("GET", "/v1/sessions", params={"limit": limit})
        else:
            found = api.request("GET", f"/v1/sessions/{session}")
    screen = out()
    if as_json:
        print_json(found)
    elif session is None:
        for one in found["sessions"]:
            when = datetime.fromtimestamp(one["updated"], UTC).astimezone().strftime("%Y-%m-%d %H:%M")
            question = " ".join(one["question"].split())[:SHOWN]
            screen.print(f"{one['session_id']}  {when}  {one['turns']:>3} turns  {question}", markup=False)
        if not found["sessions"]:
            screen.print("There are no sessions.")
    else:
        for number, turn in enumerate(found["turns"], 1):
            asked = turn["instruction"] or turn["question"]
            screen.print(f"{number}. {asked.strip()}", style="bold", markup=False)
            screen.print(f"{turn['answer'].strip()}\n", markup=False)
        memory = found["memory"]
        screen.print(
            f"{memory['tokens']:,} tokens in {decimal(memory['ids_bytes'])}; turns {decimal(memory['turns_bytes'])}; "
            f"answers {decimal(memory['answers_bytes'])}",
            style="dim",
            markup=False,
        )
