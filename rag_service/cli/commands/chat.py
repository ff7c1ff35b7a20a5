"""`rag chat`: a conversation in the terminal. Questions follow up on each other, `/edit` changes the last answer.

Knows lines and commands; what an answer looks like is `ask`'s. With --json every answer is one line of JSON, and lines
are read without a prompt, so that a program can talk.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.api import Api, Refused
from rag_service.cli.commands.ask import Cancelled, choose, decoding, ended, listen, show_sources
from rag_service.cli.console import CliError, err, out, say_error
from rag_service.cli.options import ApiKey, Collection, Exact, Json, MaxTokens, Seed, SpeculationName, Temperature, Url
from rag_service.cli.stack.connect import connect
from rag_service.stack.exit_status import DONE

HELP = """\
/edit INSTRUCTION  change the last answer
/sources           what the last answer cites, and its passages
/stats             how the last answer was decoded
/reset             begin a new session
/help              this list
/quit              leave, as do /exit and Ctrl-D
Anything else is a question. Ctrl-C cancels an answer."""
LEAVING = {"/quit", "/exit"}
SAID_BY_PEOPLE = LEAVING | {"quit", "exit"}


def chat(
    collection: Collection = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Session to continue, or to begin.")
    ] = None,
    speculation: SpeculationName = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Talk about your documents. /help lists the commands; /quit or Ctrl-D leaves.

    Where questions are piped in, the exit status is that of the first one that failed.
    """
    options: dict[str, Any] = {"temperature": temperature, "exact": exact, "stream": True}
    chosen = {"speculation": speculation, "max_tokens": max_tokens, "seed": seed}
    options |= {name: value for name, value in chosen.items() if value is not None}
    with connect(url, api_key) as api:
        talk = Chat(api, options, collection, session, None if as_json else out())
        if session is not None:
            talk.resume()
        if not as_json:
            talk.look()
            err().print("Ask, or /help. Ctrl-D leaves.", style="dim", markup=False)
        typed = not as_json and sys.stdin.isatty()
        while (line := _read("> " if typed else "")) is not None:
            if line.strip() in (LEAVING if as_json else SAID_BY_PEOPLE):
                break
            if line.strip():
                talk.take(line.strip())
    if talk.status and not typed:
        raise typer.Exit(talk.status)


class Chat:
    """One conversation.

    Args:
        options: of every request.
        screen: where answers appear as they come; None prints JSON lines.
    """

    def __init__(
        self, api: Api, options: dict[str, Any], collection: str | None, session: str | None, screen: Console | None
    ) -> None:
        self._api = api
        self._options = options
        self._collection = collection
        self._session = session
        self._screen = screen
        self.last: dict[str, Any] | None = None
        """The last answer."""
        self.status = DONE
        """Exit status of the first question or edit that failed."""

    def resume(self) -> None:
        """Take up a session's last answer, where the session is there already."""
        try:
            turns = self._api.request("GET", f"/v1/sessions/{self._session}")["turns"]
        except Refused as refused:
            if refused.http_status != 404:
                raise
            return
        if turns:
            self.last = self._api.request("GET", f"/v1/answers/{turns[-1]['answer_id']}")

    def look(self) -> None:
        """Before anything is asked: is the service there, and the collection?

        Raises:
            CliError: no; the message says what to do.
        """
        if self._collection is not None:
            self._api.request("GET", f"/v1/collections/{quote(self._collection, safe='')}")
        elif self.last is None:
            names = {one["name"] for one in self._api.request("GET", "/v1/collections")["collections"]}
            if DEFAULT_COLLECTION not in names:
                self._say(choose(self._api))

    def take(self, line: str) -> None:
        """Do what a line asks for. What goes wrong is said, and the conversation goes on."""
        command, _, rest = line.partition(" ")
        try:
            if not line.startswith("/"):
                self._ask(line)
            elif command == "/edit":
                self._edit(rest.strip())
            elif command == "/reset":
                self._session, self.last = None, None
                self._say("A new session begins.")
            elif self._screen is not None and command == "/sources":
                show_sources(self._answered(), self._screen)
                if not self._answered()["passages"]:
                    self._screen.print("No passages.", style="dim")
            elif self._screen is not None and command == "/stats":
                for text in decoding(self._answered()):
                    self._screen.print(text, style="dim", markup=False)
            elif self._screen is not None and command == "/help":
                self._screen.print(HELP, markup=False)
            else:
                raise CliError(f"There is no command {command}{' with --json' * (self._screen is None)}; try /help.")
        except Cancelled:
            self._say("\nCancelled.")
        except CliError as error:
            if self._screen is None:
                code = error.code if isinstance(error, Refused) else ""
                print(json.dumps({"error": str(error), "code": code}, ensure_ascii=False), flush=True)
            else:
                say_error(str(error))

    def _ask(self, question: str) -> None:
        chosen = {"collection": self._collection, "session_id": self._session}
        body = {"question": question, **self._options, **{name: value for name, value in chosen.items() if value}}
        self._answer("/v1/query", body)

    def _edit(self, instruction: str) -> None:
        if not instruction:
            raise CliError("Say what to change: /edit INSTRUCTION.")
        path = f"/v1/answers/{self._answered()['answer_id']}/edits"
        self._answer(path, {"instruction": instruction, **self._options})

    def _answer(self, path: str, body: dict[str, Any]) -> None:
        try:
            self.last = listen(self._api, body, self._screen, path)
        except CliError as error:
            if not isinstance(error, Cancelled):
                self.status = self.status or error.status
            raise
        self._session = self.last["session_id"]
        if self._screen is None:
            print(json.dumps(self.last, ensure_ascii=False), flush=True)
            return
        if self.last["note"]:
            self._screen.print(self.last["note"], style="yellow", markup=False)
        if self.last["finish_reason"] == "length":
            self._screen.print(ended(self.last), style="dim", markup=False)

    def _answered(self) -> dict[str, Any]:
        if self.last is None:
            raise CliError("There is no answer yet; ask something first.")
        return self.last

    def _say(self, text: str) -> None:
        if self._screen is not None:
            err().print(text, style="dim", markup=False)


def _read(prompt: str) -> str | None:
    """The next line; None at the end. Ctrl-C drops what was typed, twice in a row it is the end."""
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
            err().print("Ctrl-C once more, Ctrl-D or /quit leaves.", style="dim", markup=False)
