"""An answer in the terminal: followed as it comes, then its citations, passages and decoding."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from rag_service.cli.api import Api
from rag_service.cli.console import CliError, count, err, say_dim
from rag_service.cli.headings import shown_heading
from rag_service.client import calls
from rag_service.client.calls import Call
from rag_service.contract.answer import NearestOut
from rag_service.stack.exit_status import INTERRUPTED

QUOTED_CHARS = 90
"""Longest text of a citation that is shown."""
NAMED_SOURCES = 3
"""Most sources in the line below an answer of a conversation."""
MODEL_SIGNALS = frozenset({"readout", "check"})
"""Signals of support that come from the model."""
COPIED_COLOURS = {"passage": "green", "edited": "cyan", "prediction": "cyan"}
"""Kind of source -> colour of the text copied from it."""


class Cancelled(CliError):
    """Ctrl-C ended an answer."""

    def __init__(self) -> None:
        super().__init__("Cancelled.", INTERRUPTED)


def follow(api: Api, call: Call[Any], screen: Console | None, advice: str | None = None) -> dict[str, Any]:
    """`listen` for commands with a single answer: Ctrl-C also ends the command."""
    try:
        return listen(api, call, screen, advice)
    except Cancelled:
        err().print("\nCancelled.")
        raise typer.Exit(INTERRUPTED) from None


def listen(api: Api, call: Call[Any], screen: Console | None, advice: str | None = None) -> dict[str, Any]:
    """Send a query or an edit and return the whole answer. Its text is printed to `screen`, if any, as it comes.

    Args:
        advice: printed as a warning once the request is accepted, before the answer.

    Raises:
        Cancelled: Ctrl-C; the answer was cancelled.
        CliError: the answer failed or was rejected.
    """
    answer_id = None
    try:
        for event in api.resumed(call):
            if event.name == "passages":
                answer_id = event.data["answer_id"]
                if advice is not None:
                    err().print(advice, style="yellow")
                if screen is not None:
                    _say_search(event.data, call.json.get("question"))
            elif event.name == "waiting" and screen is not None:
                if event.data["answers"]:
                    say_dim(f"Waiting behind {count(event.data['answers'], 'other answer')} …")
            elif event.name == "parts" and screen is not None:
                say_dim(f"Read part {event.data['done']} of {event.data['total']}.")
            elif event.name == "restart" and screen is not None:
                screen.print()
                say_dim(f"{event.data['reason']} It starts again:")
            elif event.name == "token" and screen is not None:
                kind = event.data.get("source", {}).get("kind")
                screen.print(Text(event.data["text"], style=COPIED_COLOURS.get(kind, "")), end="")
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
                api.send(calls.cancel(answer_id))
        raise Cancelled from None
    raise CliError("The stream ended before the answer did. Ask again.")


def _say_search(passages: dict[str, Any], question: str | None) -> None:
    """Print the search query if it is not the question, why a follow-up was not rewritten, and what was dropped."""
    query = passages.get("retrieval_query")
    if query not in (None, question):
        say_dim(f"Looked for: {query}")
    if note := passages.get("search_note"):
        err().print(note, style="yellow")
    for name, noun in (("passages_left", "earlier passage"), ("turns_left", "oldest turn")):
        if dropped := passages.get(name, 0):
            say_dim(f"The model's window is full: {count(dropped, noun)} dropped.")
    if outdated := passages.get("turns_outdated", 0):
        say_dim(f"Not read for this answer, since documents have changed: {count(outdated, 'earlier answer')}.")
    if unsupported := passages.get("turns_unsupported", 0):
        say_dim(f"Not read for this answer, since they have a warning: {count(unsupported, 'earlier answer')}.")


def say_model(api: Api) -> None:
    """Name the model on standard error, and say if it is a toy. A service that is not ready, or older, names none."""
    with contextlib.suppress(CliError):
        model = api.request("GET", "/readyz").get("model")
        if model is not None:
            note = f", {model['note']}" if model["toy"] else ""
            err().print(f"Model: {model['name']}{note}", style="yellow" if model["toy"] else "dim")


def show(answer: dict[str, Any], screen: Console, verbose: bool) -> None:
    """Print the note, citations, passages and ids of an answer; if `verbose`, also how it was decoded."""
    screen.print()
    show_note(answer, screen)
    if answer["support"] is not None:
        screen.print(f"Support {answer['support']:.2f}{_support_remark(answer)}", style="dim")
    show_sources(answer, screen)
    screen.print(ids_line(answer), style="dim")
    for line in decoding_lines(answer) if verbose else ():
        screen.print(line, style="dim")


def show_note(answer: dict[str, Any], screen: Console) -> None:
    """Print what an answer is to be checked for, and the sentence of the passages that is nearest to the question."""
    if answer["note"]:
        screen.print(answer["note"], style="yellow")
    if nearest := answer.get("nearest"):
        screen.print(nearest_line(nearest), style="yellow", markup=False)


def nearest_line(nearest: Mapping[str, Any]) -> str:
    """The sentence of the documents that is nearest to the question, with its document."""
    return f"Nearest in the documents: {NearestOut.model_construct(**{'columns': [], **nearest}).shown()}"


def _support_remark(answer: dict[str, Any]) -> str:
    """What the number is short of: the model's own signal, which edits never have, or a calibration that holds."""
    if answer["calibrated"]:
        return ""
    if MODEL_SIGNALS.isdisjoint(answer.get("signals") or ()):
        return ", by its words alone"
    return ", not calibrated for this model, prompt or language"


def show_sources(answer: dict[str, Any], screen: Console) -> None:
    """Print citations and passages."""
    passages = {(passage.get("collection"), passage["chunk_id"]): passage for passage in answer["passages"]}
    if answer["citations"]:
        screen.print("Citations", style="bold")
    shown: set[str] = set()
    for citation in answer["citations"]:
        passage = passages[citation.get("collection"), citation["chunk_id"]]
        start, end = citation["source_start"], citation["source_end"]
        text = " ".join(passage["text"][start - passage["source_start"] : end - passage["source_start"]].split())
        text = text if len(text) <= QUOTED_CHARS else text[: QUOTED_CHARS - 1] + "…"
        line = f"  [{passage['rank']}] {citation['kind']} “{text}” ({citation['document_id']} {start}–{end})"
        if line not in shown:  # an answer that repeats itself repeats its citations
            screen.print(line)
        shown.add(line)
    if answer["passages"]:
        screen.print("Passages", style="bold")
    for passage in answer["passages"]:
        title = shown_heading(passage)
        page = f", page {passage['page']}" if passage["page"] else ""
        page += f", {passage['date']}" if passage.get("date") else ""
        omitted = "" if passage["in_prompt"] else " – left out: the model's window is full"
        earlier = " – from an earlier turn" if passage["earlier"] else ""
        changed = " – changed or deleted since" if passage.get("changed") else ""
        screen.print(f"  [{passage['rank']}] {title} ({passage['document_id']}{page}){earlier}{changed}{omitted}")


def sources_line(answer: dict[str, Any]) -> str:
    """What an answer cites and its support, in a line; "" if it has neither."""
    numbers = {(passage.get("collection"), passage["chunk_id"]): passage for passage in answer["passages"]}
    cited = (numbers[citation.get("collection"), citation["chunk_id"]] for citation in answer["citations"])
    titles = dict.fromkeys(f"[{passage['rank']}] {shown_heading(passage)}" for passage in cited)
    parts = [*list(titles)[:NAMED_SOURCES], *(["…"] if len(titles) > NAMED_SOURCES else [])]
    if answer["support"] is not None:
        parts.append(f"support {answer['support']:.2f}{_support_remark(answer)}")
    return " · ".join(parts)


def ending(answer: dict[str, Any]) -> str:
    """Why the answer ended."""
    if answer["finish_reason"] == "length":
        return f"cut at {answer['usage']['completion_tokens']} tokens; --max-tokens gives more"
    if answer["finish_reason"] == "repetition":
        return f"stopped at {answer['usage']['completion_tokens']} tokens, because it repeated itself"
    endings = {"stop": "complete", "cancelled": "cancelled"}
    return endings.get(answer["finish_reason"], str(answer["finish_reason"]))


def _time_line(answer: dict[str, Any]) -> str:
    """What is known of an answer that a model server decoded: tokens and time."""
    speculation, timings = answer["speculation"], answer["timings"]
    about = "about " if speculation.get("usage") == "estimated" else ""
    first = f"{timings['first_token'] / 1000:.1f} s to the first · " if "first_token" in timings else ""
    return (
        f"{about}{answer['usage']['completion_tokens']} tokens · {first}{timings['total'] / 1000:.1f} s · "
        f"{speculation['model']} at the model server {speculation['upstream']}"
    )


def ids_line(answer: dict[str, Any]) -> str:
    version = f" · version {answer['version']}, an edit of {answer['base']}" if answer["base"] else ""
    return f"Session {answer['session_id']} · answer {answer['answer_id']}{version} · {ending(answer)}"


def decoding_lines(answer: dict[str, Any]) -> list[str]:
    """How the answer was decoded."""
    speculation, usage, timings = answer["speculation"], answer["usage"], answer["timings"]
    if speculation.get("engine") == "upstream":
        return [_time_line(answer)]
    lines = [
        f"{usage['completion_tokens']} tokens in {speculation['steps']} steps after the first: "
        f"MAT {speculation['mat']:.2f} (plain 1.00) · drafter {speculation['drafter']} · "
        f"drafted {speculation['drafted']}, accepted {speculation['accepted']} · {timings['total'] / 1000:.1f} s",
    ]
    for drafter, tokens in speculation["by_source"].items():
        lines.append(f"  {drafter}: drafted {tokens['drafted']}, accepted {tokens['accepted']}")
    if details := usage.get("completion_tokens_details"):
        accepted, rejected = details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]
        lines.append(f"  of the text under edit: accepted {accepted}, rejected {rejected}")
    return lines
