"""`rag ask "…"`: the answer as it comes, then what it cites and how it was decoded."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rag_service.answering.names import NO_COLLECTION
from rag_service.cli.api import Api
from rag_service.cli.console import CliError, err, out, print_json
from rag_service.cli.options import (
    ApiKey,
    Collection,
    Exact,
    Json,
    MaxTokens,
    Seed,
    SpeculationName,
    Temperature,
    TopK,
    Url,
)
from rag_service.cli.stack.connect import connect
from rag_service.prompting.prompt import heading_line
from rag_service.stack.exit_status import INTERRUPTED

QUOTED = 90
"""Characters of a citation that are shown."""
NAMED = 8
"""Collections that are named where one is to be chosen."""
COPIED = {"passage": "green", "edited": "cyan", "prediction": "cyan"}
"""Colours of text that was copied from these."""


class Cancelled(CliError):
    """Ctrl-C ended an answer."""

    def __init__(self) -> None:
        super().__init__("Cancelled.", INTERRUPTED)


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    collection: Collection = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Session to continue, or to begin.")
    ] = None,
    speculation: SpeculationName = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    top_k: TopK = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Ask a question over your documents. Ctrl-C cancels the answer."""
    body: dict[str, Any] = {
        "question": question,
        "temperature": temperature,
        "exact": exact,
        "stream": True,
    }
    chosen = {
        "collection": collection,
        "session_id": session,
        "speculation": speculation,
        "max_tokens": max_tokens,
        "seed": seed,
        "retrieval": {"top_k": top_k} if top_k is not None else None,
    }
    body |= {name: value for name, value in chosen.items() if value is not None}
    with connect(url, api_key) as api:
        answer = follow(api, body, None if as_json else out())
        say_which_collections(api, answer)
    if as_json:
        print_json(answer)
    else:
        show(answer, out())


def follow(api: Api, body: dict[str, Any], screen: Console | None, path: str = "/v1/query") -> dict[str, Any]:
    """`listen` for commands of one answer: Ctrl-C ends the command as well."""
    try:
        return listen(api, body, screen, path)
    except Cancelled:
        err().print("\nCancelled.")
        raise typer.Exit(INTERRUPTED) from None


def listen(api: Api, body: dict[str, Any], screen: Console | None, path: str = "/v1/query") -> dict[str, Any]:
    """Ask, and print the answer's text as it comes where there is a screen; returns the whole answer.

    Raises:
        Cancelled: Ctrl-C; the answer was told to stop.
        CliError: it failed, or was refused.
    """
    answer_id = None
    try:
        for event in api.stream(path, body):
            if event.name == "passages":
                answer_id = event.data["answer_id"]
                if screen is not None:
                    _say_what_was_looked_for(event.data, body.get("question"))
            elif event.name == "token" and screen is not None:
                copied = event.data.get("source", {}).get("kind")
                screen.print(Text(event.data["text"], style=COPIED.get(copied, "")), end="")
            elif event.name == "done":
                if screen is not None:
                    screen.print()
                done: dict[str, Any] = event.data
                return done
            elif event.name == "error":
                raise CliError(str(event.data.get("detail")))
    except KeyboardInterrupt:
        if answer_id is not None:
            with contextlib.suppress(CliError):
                api.request("DELETE", f"/v1/answers/{answer_id}")
        raise Cancelled from None
    raise CliError("The stream ended before the answer did; ask again.")


def _say_what_was_looked_for(passages: dict[str, Any], question: str | None) -> None:
    """Where that is not what the user typed, or where the prompt lost passages."""
    query, left = passages.get("retrieval_query"), passages.get("passages_left", 0)
    turns = passages.get("turns_left", 0)
    if query not in (None, question):
        err().print(f"Looked for: {query}", style="dim", markup=False)
    if left:
        err().print(f"The model's window is full: {left} earlier passages left it.", style="dim", markup=False)
    if turns:
        err().print(f"The model's window is full: the oldest {turns} turns left it.", style="dim", markup=False)


def say_which_collections(api: Api, answer: dict[str, Any]) -> None:
    """Name the collections there are, where an answer went without passages because it was asked of none."""
    if answer["note"] == NO_COLLECTION:
        err().print(choose(api), style="yellow", markup=False)


def choose(api: Api) -> str:
    """Which collections can be asked."""
    names = [one["name"] for one in api.request("GET", "/v1/collections")["collections"]]
    if not names:
        return "There are no collections; `rag ingest PATH…` makes one."
    shown = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    return f"You have {shown}: choose with -c."


def show(answer: dict[str, Any], screen: Console) -> None:
    """Note, citations, passages and how the answer was decoded."""
    screen.print()
    if answer["note"]:
        screen.print(answer["note"], style="yellow", markup=False)
    show_sources(answer, screen)
    for line in decoding(answer):
        screen.print(line, style="dim", markup=False)


def show_sources(answer: dict[str, Any], screen: Console) -> None:
    """Citations and passages."""
    numbers = {passage["chunk_id"]: passage["rank"] for passage in answer["passages"]}
    if answer["citations"]:
        screen.print("Citations", style="bold")
    shown: set[str] = set()
    for citation in answer["citations"]:
        text = " ".join(answer["answer"][citation["answer_start"] : citation["answer_end"]].split())
        text = text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
        place = f"{citation['document_id']} {citation['source_start']}–{citation['source_end']}"
        line = f"  [{numbers[citation['chunk_id']]}] {citation['kind']} “{text}” ({place})"
        if line not in shown:  # an answer that repeats itself cites the same again
            screen.print(line, markup=False)
        shown.add(line)
    if answer["passages"]:
        screen.print("Passages", style="bold")
    for passage in answer["passages"]:
        title = heading_line(passage)
        page = f", page {passage['page']}" if passage["page"] else ""
        unread = "" if passage["in_prompt"] else " – left out: the model's window is full"
        earlier = " – from an earlier turn" if passage["earlier"] else ""
        where = f"{passage['document_id']}{page}"
        screen.print(f"  [{passage['rank']}] {title} ({where}){earlier}{unread}", markup=False)


def ended(answer: dict[str, Any]) -> str:
    """Why the answer ends where it does."""
    if answer["finish_reason"] == "length":
        return f"cut at {answer['usage']['completion_tokens']} tokens; --max-tokens gives more"
    return str(answer["finish_reason"])


def decoding(answer: dict[str, Any]) -> list[str]:
    """How the answer was decoded, in lines."""
    how, usage, timings = answer["speculation"], answer["usage"], answer["timings"]
    version = f" · version {answer['version']}, an edit of {answer['base']}" if answer["base"] else ""
    lines = [
        f"Session {answer['session_id']} · answer {answer['answer_id']}{version} · {ended(answer)}",
        f"{usage['completion_tokens']} tokens in {how['steps']} steps after the first: MAT {how['mat']:.2f} "
        f"(plain 1.00) · drafter {how['drafter']} · drafted {how['drafted']}, accepted {how['accepted']} "
        f"· {timings['total'] / 1000:.1f} s",
    ]
    for name, count in how["by_source"].items():
        lines.append(f"  {name}: drafted {count['drafted']}, accepted {count['accepted']}")
    if predicted := usage.get("completion_tokens_details"):
        accepted, rejected = (predicted[f"{how}_prediction_tokens"] for how in ("accepted", "rejected"))
        lines.append(f"  of the text under edit: accepted {accepted}, rejected {rejected}")
    return lines
