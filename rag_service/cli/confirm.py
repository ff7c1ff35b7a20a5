"""Whether to go on with what cannot be undone: a question to whoever sits at a terminal."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from rag_service.cli.console import CliError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal, nobody is asked anyway.")]


def asks(yes: bool) -> bool:
    """Whether a command that names what is to go asks first: not with --yes, and not where nobody can answer."""
    return not yes and at_terminal()


def confirm(question: str) -> None:
    """Raises Abort if the answer is no, CliError if nobody can be asked, and KeyboardInterrupt at Ctrl-C."""
    if not agreed(question):
        raise typer.Abort if at_terminal() else CliError("Nobody said yes, so nothing was done; --yes does not ask.")


def agreed(question: str) -> bool:
    """The answer to a question on standard error; no is the default. Where nobody can answer, it is no, unasked.

    Raises KeyboardInterrupt at Ctrl-C.
    """
    if not at_terminal():
        return False
    try:
        with redirect_stdout(sys.stderr or sys.stdout):  # typer leaves a space on standard output
            return typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def at_terminal() -> bool:
    """Whether a question would be seen and could be answered."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
