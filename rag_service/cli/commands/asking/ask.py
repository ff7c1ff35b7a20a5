"""`rag ask "…"` and `rag edit ANSWER "…"`: the answer as it comes, then what it cites."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rag_service.answering.names import NO_COLLECTION
from rag_service.cli.answers import follow, say_model, show
from rag_service.cli.choice import choose, collections_to_choose
from rag_service.cli.console import err, out, print_json
from rag_service.cli.metadata import Where, filter_of
from rag_service.cli.options import (
    Abstain,
    ApiKey,
    Collections,
    Document,
    Exact,
    Json,
    MaxTokens,
    Rewrite,
    Seed,
    SessionId,
    ShowPrompt,
    SpeculationName,
    Temperature,
    TopK,
    Url,
    Verbose,
    joined,
    named,
    sentence,
    without_none,
)
from rag_service.cli.stack.connect import connect
from rag_service.client import calls


def ask(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What you want to know.")],
    collection: Collections = None,
    session: SessionId = None,
    speculation: SpeculationName = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    top_k: TopK = None,
    rewrite: Rewrite = None,
    document: Document = None,
    where: Where = None,
    abstain: Abstain = None,
    show_prompt: ShowPrompt = False,
    verbose: Verbose = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Ask a question about your documents. Ctrl-C cancels the answer."""
    options = without_none(
        session_id=session,
        speculation=speculation,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        exact=exact,
        abstain=abstain,
        retrieval=without_none(top_k=top_k, rewrite=rewrite, document_id=document, filter=filter_of(where)) or None,
    )
    asked = sentence(question)
    with connect(url, api_key, asking=True) as api:
        chooses = not collection and asked.strip()  # what is wrong with an empty question, the service says
        name, advice = choose(api, session) if chooses else (joined(collection), None)
        call = calls.query(asked, without_none(collection=name) | options)
        answer = follow(api, call, None if as_json else out(), advice)
        if advice is not None and not as_json and answer["note"] == NO_COLLECTION:
            answer["note"] = None  # the advice has said so
        if advice is None and answer["note"] == NO_COLLECTION and (late := collections_to_choose(api)) is not None:
            err().print(late, style="yellow")
        if show_prompt:
            answer["prompt"] = api.json(calls.answer(answer["answer_id"], False, prompt=True))["prompt"]
        _print(answer, as_json, verbose)
        if not as_json:
            say_model(api)


def edit(
    answer: Annotated[
        str, typer.Argument(metavar="ANSWER", help="Id of the answer; `rag ask` prints it.", callback=named)
    ],
    instruction: Annotated[list[str], typer.Argument(metavar="INSTRUCTION", help="What to change.")],
    speculation: SpeculationName = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    verbose: Verbose = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Change an answer and print the whole new version. Ctrl-C cancels it."""
    options = without_none(
        speculation=speculation, max_tokens=max_tokens, temperature=temperature, seed=seed, exact=exact
    )
    with connect(url, api_key) as api:
        version = follow(api, calls.edit(answer, sentence(instruction), options), None if as_json else out())
    _print(version, as_json, verbose)


def _print(answer: dict[str, Any], as_json: bool, verbose: bool) -> None:
    if as_json:
        print_json(answer)
        return
    for part in answer.get("prompt") or ():
        out().print(part["text"], style="dim", end="", markup=False, highlight=False)
    show(answer, out(), verbose)
