"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from decoder.drafter_names import DRAFTER_NAMES

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of the API.  [default: the running stack's]")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", metavar="KEY", help="Key of the API.  [default: RAG_API_KEY, else the local key]"),
]
InCollection = Annotated[str, typer.Option("--collection", "-c", metavar="NAME", help="Collection that it is in.")]
Collection = Annotated[
    str | None,
    typer.Option(
        "--collection",
        "-c",
        metavar="NAME",
        help="Collection to use.  [default: the session's, else `default` where there is one]",
    ),
]


def _known_drafter(name: str | None) -> str | None:
    if name is not None and name not in DRAFTER_NAMES:
        raise typer.BadParameter(f"{name[:80]!r} is no drafter; choose one of {', '.join(DRAFTER_NAMES)}.")
    return name


SpeculationName = Annotated[
    str | None,
    typer.Option(
        "--speculation",
        metavar="NAME",
        help="off, auto or a drafter's name: changes the speed, never the answer.",
        autocompletion=lambda: list(DRAFTER_NAMES),
        callback=_known_drafter,
    ),
]
Compared = Annotated[
    str,
    typer.Option(
        "--drafter",
        metavar="NAME",
        help="auto or a drafter's name, to compare with plain decoding.",
        autocompletion=lambda: list(DRAFTER_NAMES),
        callback=_known_drafter,
    ),
]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", metavar="N", help="Most tokens of the answer.", min=1)]
Temperature = Annotated[float, typer.Option("--temperature", metavar="T", help="0 is greedy.", min=0)]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="For temperatures above 0: the same seed, the same answer.", min=0),
]
Exact = Annotated[
    Literal["default", "strict"],
    typer.Option("--exact", help="strict decides near-ties again with passes of one token."),
]
TopK = Annotated[int | None, typer.Option("--top-k", metavar="N", help="Passages to retrieve.", min=1)]


def example(*lines: str) -> str:
    """Command lines as they end a command's `--help`: one a line, not wrapped."""
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])
