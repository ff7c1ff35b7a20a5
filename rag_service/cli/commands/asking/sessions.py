"""`rag sessions list|show|export|erase`: the sessions, their turns and the memory they take."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from rag_service.cli.api import Api, Rejected
from rag_service.cli.commands.asking.transcript import as_markdown, has_changed
from rag_service.cli.confirm import asks, confirm
from rag_service.cli.console import CliError, count, err, local_time, out, print_json, print_result, say_dim
from rag_service.cli.options import ApiKey, Json, Url, example, named
from rag_service.cli.stack.connect import connect
from rag_service.client import calls
from rag_service.contract.notes import passes_on
from rag_service.stack.exit_status import USAGE

QUESTION_CHARS = 60
"""Characters of a question that the list shows."""
MOST_SESSIONS = 1000
"""Sessions that the list shows at most."""

app = typer.Typer(help="Sessions: list, show, export, erase.", no_args_is_help=True)
_ID = "Id of the session; `rag sessions list` shows it."
SessionId = Annotated[str, typer.Argument(metavar="ID", help=_ID, callback=named)]
OneOrAll = Annotated[str | None, typer.Argument(metavar="ID", help=_ID, show_default=False, callback=named)]


@app.command("list", epilog=example("rag sessions list"))
def list_sessions(
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of sessions.", min=1, max=MOST_SESSIONS)] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List sessions, the latest first."""
    with connect(url, api_key) as api:
        sessions = api.json(calls.sessions(min(limit + 1, MOST_SESSIONS), offset=0))
    more = len(sessions["sessions"]) > limit
    sessions["sessions"] = sessions["sessions"][:limit]
    if as_json:
        print_json(sessions)
        return
    for session in sessions["sessions"]:
        words = " ".join(session["question"].split())
        question = words if len(words) <= QUESTION_CHARS else words[: QUESTION_CHARS - 1].rstrip() + "…"
        question = question or "(no finished answer)"
        turns = f"{session['turns']:>3} turn{'s' * (session['turns'] != 1)}"
        out().print(f"{session['session_id']}  {local_time(session['updated'])}  {turns}  {question}")
    if not sessions["sessions"]:
        err().print("There are no sessions.")
    elif more:
        err().print(f"These are the latest {limit}; --limit {MOST_SESSIONS} shows more.")


@app.command("show", epilog=example("rag sessions show my-session"))
def show(session: SessionId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Show the turns of a session and the memory it takes in Redis."""
    with connect(url, api_key) as api:
        history = api.json(calls.session(session))
        answers = [] if as_json else [_answer(api, turn) for turn in history["turns"]]
    if as_json:
        print_json(history)
        return
    screen = out()
    numbers = {turn["answer_id"]: number for number, turn in enumerate(answers, 1)}
    for number, turn in enumerate(answers, 1):
        edited = numbers.get(turn["base"])
        edit = "" if turn["base"] is None else f"Edit of {f'turn {edited}' if edited else 'an earlier answer'}: "
        screen.print(f"{number}. {edit}{(turn['instruction'] or turn['question']).strip()}", style="bold")
        screen.print(turn["answer"].strip())
        if turn["warning"]:
            screen.print(turn["warning"], style="yellow")
        if has_changed(turn):
            screen.print("A source of this answer was changed or deleted since.", style="dim")
        screen.print()
    memory = history["memory"]
    screen.print(
        f"Kept in Redis: {memory['tokens']:,} tokens in {decimal(memory['ids_bytes'])}; "
        f"turns {decimal(memory['turns_bytes'])}; answers {decimal(memory['answers_bytes'])}",
        style="dim",
    )


@app.command("export", epilog=example("rag sessions export my-session", "rag sessions export my-session -o talk.md"))
def export(
    session: SessionId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.  [default: standard output]")
    ] = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Print a session as Markdown: questions, answers, and the sources that they cite.

    Of an answer that was edited, the latest version. Warnings stand above their answers. Answers that have expired,
    sooner than their session does, have no citations and no warning.
    """
    with connect(url, api_key) as api:
        answers = [_answer(api, turn) for turn in api.json(calls.session(session))["turns"]]
    today = local_time(time.time()).split()[0]
    text = json.dumps(answers, ensure_ascii=False, indent=2) + "\n" if as_json else as_markdown(answers, today)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{output} cannot be written: {error.strerror}.") from None
    say_dim(f"Wrote {output}.")


def _answer(api: Api, turn: dict[str, Any]) -> dict[str, Any]:
    """A turn with the citations of its answer and the warning of it; None if that has expired."""
    try:
        answer = api.json(calls.answer(turn["answer_id"], token_ids=False))
    except Rejected as rejected:
        if rejected.http_status != 404:
            raise
        return {**turn, "citations": None, "warning": None, "nearest": None}
    warns = answer["answerable"] is not None or passes_on(answer["note"])  # other notes on edits warn of nothing
    warning = answer["note"] if warns else None
    return {**turn, "citations": answer["citations"], "warning": warning, "nearest": answer.get("nearest")}


@app.command("erase", epilog=example("rag sessions erase my-session", "rag sessions erase --all --yes"))
def erase(
    session: OneOrAll = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Erase all that is kept of the key's person, answers outside sessions too.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask. Where there is no terminal, only --all needs it.")
    ] = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Erase a session with its turns and all its answers, or with --all everything. Asks first."""
    if everything == (session is not None):
        raise CliError("Name a session, or give --all, and not both.", USAGE)
    if everything and not yes:
        confirm("Erase all sessions and answers of this key's person?")
    if session is not None and asks(yes):
        confirm(f"Erase the session {session!r} with all its answers?")
    with connect(url, api_key) as api:
        if session is None:
            number = api.send(calls.erase_sessions())
            print_result({"sessions": number}, f"Erased everything: {count(number, 'session')}.", as_json)
            return
        api.send(calls.erase_session(session))
    print_result({"erased": session}, f"Erased {session}.", as_json)
