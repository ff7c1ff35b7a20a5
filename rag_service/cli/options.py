"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from decoder.drafter_names import DRAFTER_NAMES


def named(value: Any) -> Any:
    """Callback of arguments that are ids or names. Raises BadParameter for an empty one: its address is another's."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if one is not None and not one.strip():
            raise typer.BadParameter("it is empty; say which one is meant.")
    return value


Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Address to listen on.  [default: RAG_HOST, else 127.0.0.1]"),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        help="Port to listen on; 0 takes a free one.  [default: RAG_PORT, else 8080]",
        min=0,
        max=65535,
    ),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of the API.  [default: that of the running stack]")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", metavar="KEY", help="API key.  [default: RAG_API_KEY, else the local key]"),
]
InCollection = Annotated[
    str, typer.Option("--collection", "-c", metavar="NAME", help="Collection of the documents.", callback=named)
]
OneCollection = Annotated[
    str | None,
    typer.Option(
        "--collection",
        "-c",
        metavar="NAME",
        help="Collection of the documents.  [default: `default` if it exists, else the only one]",
    ),
]
Collections = Annotated[
    list[str] | None,
    typer.Option(
        "--collection",
        "-c",
        metavar="NAME[,NAME…]",
        help="Collection to search; several with commas or -c again.  "
        "[default: the session's, else `default` if it exists, else the only one]",
    ),
]
Document = Annotated[
    str | None,
    typer.Option("--document", metavar="ID", help="Read the whole of this document, and search for nothing."),
]
SessionId = Annotated[
    str | None, typer.Option("--session", "-s", metavar="ID", help="Session to continue, or to start.")
]


Rewrite = Annotated[
    bool | None,
    typer.Option(
        "--rewrite/--no-rewrite",
        help="Whether a follow-up is made to stand alone before the search.  "
        "[default: RAG_RETRIEVAL__REWRITE, else yes]",
        show_default=False,
    ),
]


def sentence(words: list[str]) -> str:
    """A question or an instruction, whose words a shell splits where it has no quotes."""
    return " ".join(words)


def joined(collections: list[str] | None) -> str | None:
    """All collections that were named, as the API takes them; None for none."""
    return ",".join(collections) if collections else None


def _known_drafter(name: str | None) -> str | None:
    if name is not None and name not in DRAFTER_NAMES:
        raise typer.BadParameter(f"{name[:80]!r} is not a drafter; choose one of {', '.join(DRAFTER_NAMES)}.")
    return name


_DRAFTER: dict[str, Any] = {
    "metavar": "NAME",
    "autocompletion": lambda: list(DRAFTER_NAMES),
    "callback": _known_drafter,
}
SpeculationName = Annotated[
    str | None,
    typer.Option(
        "--speculation",
        help="off, auto or a drafter's name. Changes the speed, never the answer.  [default: RAG_DRAFTER, else auto]",
        **_DRAFTER,
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also print how the answer was decoded: tokens, passes, drafts, time.")
]
ShowPrompt = Annotated[bool, typer.Option("--show-prompt", help="Also print the prompt that the model got.")]
Compared = Annotated[
    str, typer.Option("--drafter", help="auto or a drafter's name; compared with plain decoding.", **_DRAFTER)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        metavar="N",
        help="Longest answer, in tokens.  [default: RAG_ANSWERS__MAX_TOKENS, else 256]",
        min=1,
    ),
]
Temperature = Annotated[float, typer.Option("--temperature", metavar="T", help="0 is greedy.", min=0)]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="With a temperature above 0, the same seed gives the same answer.  [default: random]",
        min=0,
    ),
]
Exact = Annotated[
    Literal["default", "strict", "bitwise"],
    typer.Option(
        "--exact",
        help="strict decides near-ties again in passes of one token; bitwise is refused where no bit is promised.",
    ),
]
Abstain = Annotated[
    Literal["off", "warn", "refuse"] | None,
    typer.Option(
        "--abstain",
        help="What happens if the passages probably do not answer the question. An answer that they do not state has "
        "a warning in any case but off.  [default: warn]",
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k", metavar="N", help="Number of passages to retrieve.  [default: RAG_RETRIEVAL__TOP_K, else 5]", min=1
    ),
]


def example(*lines: str) -> str:
    """The examples at the end of a command's `--help`, one a line, not wrapped."""
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def without_none(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
