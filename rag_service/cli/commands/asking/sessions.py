"""`rag sessions list|show|erase`: the sessions, their turns and the memory they take."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.filesize import decimal

from rag_service.cli.console import CliError, err, local_time, out, print_json, print_result
from rag_service.cli.options import ApiKey, Json, Url, example
from rag_service.cli.stack.connect import connect
from rag_service.client import calls

QUESTION_CHARS = 60
"""Characters of a question that the list shows."""

app = typer.Typer(help="Sessions: list, show, erase.", no_args_is_help=True)
_ID = "Id of the session; `rag sessions list` shows it."
SessionId = Annotated[str, typer.Argument(metavar="ID", help=_ID)]
OneOrAll = Annotated[str | None, typer.Argument(metavar="ID", help=_ID, show_default=False)]


@app.command("list", epilog=example("rag sessions list"))
def list_sessions(
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of sessions.", min=1, max=1000)] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List sessions, the latest first."""
    with connect(url, api_key) as api:
        sessions = api.json(calls.sessions(limit, offset=0))
    if as_json:
        print_json(sessions)
        return
    for session in sessions["sessions"]:
        question = " ".join(session["question"].split())[:QUESTION_CHARS] or "(no finished answer)"
        turns = f"{session['turns']:>3} turn{'s' * (session['turns'] != 1)}"
        out().print(f"{session['session_id']}  {local_time(session['updated'])}  {turns}  {question}")
    if not sessions["sessions"]:
        err().print("There are no sessions.")


@app.command("show", epilog=example("rag sessions show my-session"))
def show(session: SessionId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Show the turns of a session and the memory it takes in Redis."""
    with connect(url, api_key) as api:
        history = api.json(calls.session(session))
    if as_json:
        print_json(history)
        return
    screen = out()
    for number, turn in enumerate(history["turns"], 1):
        screen.print(f"{number}. {(turn['instruction'] or turn['question']).strip()}", style="bold")
        screen.print(f"{turn['answer'].strip()}\n")
    memory = history["memory"]
    screen.print(
        f"{memory['tokens']:,} tokens in {decimal(memory['ids_bytes'])}; turns {decimal(memory['turns_bytes'])}; "
        f"answers {decimal(memory['answers_bytes'])}",
        style="dim",
    )


@app.command("erase", epilog=example("rag sessions erase my-session"))
def erase(
    session: OneOrAll = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Erase all that is kept of the key's person, answers outside sessions too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --all.")] = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Erase a session with its turns and all its answers, or with --all everything."""
    if everything == (session is not None):
        raise CliError("Name a session, or give --all.")
    if everything and not yes:
        typer.confirm("Erase all sessions and answers of this key's person?", abort=True, err=True)
    with connect(url, api_key) as api:
        if session is None:
            number = api.send(calls.erase_sessions())
            print_result({"sessions": number}, f"Erased everything: {number} session{'s' * (number != 1)}.", as_json)
            return
        api.send(calls.erase_session(session))
    print_result({"erased": session}, f"Erased {session}.", as_json)
