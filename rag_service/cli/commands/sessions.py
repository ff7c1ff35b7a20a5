"""`rag sessions list|show|erase`: the sessions there are, and what one of them holds and takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

import typer
from rich.filesize import decimal

from rag_service.cli.console import err, out, print_json
from rag_service.cli.options import ApiKey, Json, Url, example
from rag_service.cli.stack.connect import connect

SHOWN = 60
"""Characters of a question that the list shows."""

app = typer.Typer(help="Sessions: list, show, erase.", no_args_is_help=True)
SessionId = Annotated[str, typer.Argument(metavar="ID", help="Id of the session; `rag sessions list` has it.")]


@app.command("list", epilog=example("rag sessions list"))
def list_sessions(
    limit: Annotated[int, typer.Option(metavar="N", help="Most sessions to list.", min=1, max=1000)] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List sessions, the latest first."""
    with connect(url, api_key) as api:
        found = api.request("GET", "/v1/sessions", params={"limit": limit})
    if as_json:
        print_json(found)
        return
    for one in found["sessions"]:
        when = datetime.fromtimestamp(one["updated"], UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        question = " ".join(one["question"].split())[:SHOWN]
        out().print(
            f"{one['session_id']}  {when}  {one['turns']:>3} turn{'s' * (one['turns'] != 1)}  {question}", markup=False
        )
    if not found["sessions"]:
        err().print("There are no sessions.")


@app.command("show", epilog=example("rag sessions show my-session"))
def show(session: SessionId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Show the turns of a session, and what it takes in Redis."""
    with connect(url, api_key) as api:
        found = api.request("GET", _path(session))
    if as_json:
        print_json(found)
        return
    screen = out()
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


@app.command("erase", epilog=example("rag sessions erase my-session"))
def erase(session: SessionId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Erase everything kept for a session: its turns and all its answers."""
    with connect(url, api_key) as api:
        api.request("DELETE", _path(session))
    if as_json:
        print_json({"erased": session})
    else:
        out().print(f"Erased {session}.", markup=False)


def _path(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"
