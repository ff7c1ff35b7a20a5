"""`rag chat`: a conversation in the terminal. Questions follow up on each other, `/edit` changes the last answer.

Knows lines and commands; `answers` prints the answers. With --json every answer is one line of JSON and lines are read
without a prompt, for programs.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.answers import (
    Cancelled,
    decoding_lines,
    ending,
    ids_line,
    listen,
    say_model,
    show_note,
    show_sources,
    sources_line,
)
from rag_service.cli.api import Api, Rejected
from rag_service.cli.choice import choose
from rag_service.cli.console import CliError, out, say_dim, say_error
from rag_service.cli.metadata import Where, filter_of
from rag_service.cli.options import (
    Abstain,
    ApiKey,
    Collections,
    Exact,
    Json,
    MaxTokens,
    Rewrite,
    Seed,
    SessionId,
    SpeculationName,
    Temperature,
    Url,
    joined,
    without_none,
)
from rag_service.cli.plain_text import check_text, shown
from rag_service.cli.stack.connect import connect
from rag_service.client import calls
from rag_service.client.calls import Call
from rag_service.stack.exit_status import DONE

HELP = """\
/edit INSTRUCTION  change the last answer
/sources           what the last answer cites, and its passages
/stats             how the last answer was decoded
/collection        which collections the next questions search
/collection NAME   search this one; several with commas
/reset             start a new session
/help              this list
/quit              leave, as do /exit and Ctrl-D
Anything else is a question. Ctrl-C cancels an answer."""
QUIT = {"/quit", "/exit"}
QUIT_AT_A_PROMPT = QUIT | {"quit", "exit"}


def chat(
    collection: Collections = None,
    session: SessionId = None,
    speculation: SpeculationName = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    rewrite: Rewrite = None,
    where: Where = None,
    abstain: Abstain = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Talk about your documents. /help lists the commands; /quit or Ctrl-D leaves.

    With questions from a pipe, each is printed before its answer, and the exit status is that of the first question or
    command that failed.
    """
    changing = without_none(
        speculation=speculation, max_tokens=max_tokens, temperature=temperature, seed=seed, exact=exact
    )
    retrieval = without_none(rewrite=rewrite, filter=filter_of(where))
    asking = changing | without_none(abstain=abstain, retrieval=retrieval or None)
    with connect(url, api_key, asking=True) as api:
        conversation = Conversation(api, asking, changing, joined(collection), session, None if as_json else out())
        if session is not None:
            conversation.resume(session)
        if not as_json:
            conversation.check()
            say_model(api)
            say_dim("Ask, or /help. Ctrl-D leaves.")
        interactive = not as_json and sys.stdin.isatty()
        if isinstance(sys.stdin, io.TextIOWrapper):  # a line that is not UTF-8 is refused, and the next ones answered
            sys.stdin.reconfigure(errors="surrogateescape")
        while (line := _read("> " if interactive else "")) is not None:
            if line.strip() in (QUIT if as_json else QUIT_AT_A_PROMPT):
                break
            if line.strip():
                if not (interactive or as_json):  # nobody typed it here, so nothing shows which answer is whose
                    out().print(f"> {shown(line.strip())}")
                conversation.handle(line.strip())
    if conversation.status and not interactive:
        raise typer.Exit(conversation.status)


class Conversation:
    """One conversation.

    Args:
        asking: fields of every question.
        changing: fields of every edit.
        screen: prints answers as they come; None prints JSON lines instead.
    """

    def __init__(
        self,
        api: Api,
        asking: dict[str, Any],
        changing: dict[str, Any],
        collection: str | None,
        session: str | None,
        screen: Console | None,
    ) -> None:
        self._api = api
        self._asking = asking
        self._changing = changing
        self._collection = collection
        self._session = session
        self._screen = screen
        self.last: dict[str, Any] | None = None
        """The last answer."""
        self.status = DONE
        """Exit status of the first line that failed: a question, an edit or a command."""

    def resume(self, session: str) -> None:
        """Continue after a session's last answer, if the session exists."""
        try:
            turns = self._api.send(calls.session(session)).turns
        except Rejected as rejected:
            if rejected.http_status != 404:
                raise
            return
        if turns:
            self.last = self._api.json(calls.answer(turns[-1].answer_id, token_ids=False))

    def check(self) -> None:
        """Check that the service answers and that the collection exists.

        Raises:
            CliError: one of them does not.
        """
        if self._collection is not None:
            self._search_in(self._collection)
        elif self.last is None:
            self._collection, advice = choose(self._api)
            if advice is not None:
                self._say(advice)

    def handle(self, line: str) -> None:
        """Run a command or ask a question. Errors are printed, and the conversation goes on."""
        command, _, arguments = line.partition(" ")
        try:
            check_text(line)
            if not line.startswith("/"):
                self._ask(line)
            elif command == "/edit":
                self._edit(arguments.strip())
            elif command == "/collection":
                self._choose(arguments.strip())
            elif command == "/reset":
                self._session, self.last = None, None
                self._say("A new session starts.")
            elif self._screen is not None and command == "/sources":
                show_sources(self._last_answer(), self._screen)
                if not self._last_answer()["passages"]:
                    self._screen.print("No passages.", style="dim")
            elif self._screen is not None and command == "/stats":
                for text in [ids_line(self._last_answer()), *decoding_lines(self._last_answer())]:
                    self._screen.print(text, style="dim")
            elif self._screen is not None and command == "/help":
                self._screen.print(HELP)
            else:
                raise CliError(f"There is no command {command}{' with --json' * (self._screen is None)}; try /help.")
        except Cancelled:
            self._say("\nCancelled.")
        except CliError as error:
            self.status = self.status or error.status
            if self._screen is None:
                code = error.code if isinstance(error, Rejected) else ""
                print(json.dumps({"error": str(error), "code": code}, ensure_ascii=False), flush=True)
            else:
                say_error(str(error))

    def _ask(self, question: str) -> None:
        self._answer(lambda: self._query(question))

    def _query(self, question: str) -> Call[Any]:
        if self._collection is None and self.last is None:
            self._collection, _ = choose(self._api)
        place = without_none(collection=self._collection or None, session_id=self._session or None)
        return calls.query(question, self._asking | place)

    def _search_in(self, names: str) -> None:
        for name in names.split(","):
            self._api.send(calls.collection(name.strip()))
        self._collection = names

    def _choose(self, names: str) -> None:
        if names:
            self._search_in(names)
        searched = self._collection or (self.last or {}).get("collection") or DEFAULT_COLLECTION
        self._say(f"The next questions search {searched}.")

    def _edit(self, instruction: str) -> None:
        if not instruction:
            raise CliError("Say what to change: /edit INSTRUCTION.")
        last = self._last_answer()["answer_id"]
        self._answer(lambda: calls.edit(last, instruction, self._changing))

    def _answer(self, call: Callable[[], Call[Any]]) -> None:
        self.last = listen(self._api, call(), self._screen)
        self._session = self.last["session_id"]
        if self._screen is None:
            print(json.dumps(self.last, ensure_ascii=False), flush=True)
            return
        show_note(self.last, self._screen)
        if line := sources_line(self.last):
            self._screen.print(line, style="dim")
        if self.last["finish_reason"] in ("length", "repetition"):
            self._screen.print(ending(self.last), style="dim")

    def _last_answer(self) -> dict[str, Any]:
        if self.last is None:
            raise CliError("There is no answer yet; ask something first.")
        return self.last

    def _say(self, text: str) -> None:
        if self._screen is not None:
            say_dim(text)


def _read(prompt: str) -> str | None:
    """The next line; None at the end. Ctrl-C discards the line; twice in a row it ends the input."""
    if sys.stdin.isatty():
        import readline  # noqa: F401  # editing and history while typing
    interrupted = False
    while True:
        try:
            return input(prompt)
        except EOFError:
            if prompt:
                print()
            return None
        except KeyboardInterrupt:
            if not prompt:
                raise
            print()
            if interrupted:
                return None
            interrupted = True
            say_dim("Ctrl-C again, Ctrl-D or /quit leaves.")
