"""What all commands share: consoles, times, and how a command fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn

from rag_service.stack.exit_status import DONE, FAILED, INTERRUPTED, UNREACHABLE, USAGE

EXIT_CODES = {
    DONE: "done",
    FAILED: "rejected or partly failed; `rag verify`: the answers differ; `rag doctor`: something is missing",
    USAGE: "wrong usage: unknown command or option, or an invalid value of an option or setting",
    UNREACHABLE: "the service or its Redis cannot be reached",
    INTERRUPTED: "interrupted (Ctrl-C)",
}
"""The meaning of every exit status."""


class CliError(Exception):
    """Ends a command with an exit status. The message says what to do."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


def out() -> Console:
    """Standard output: answers and lists. Colours appear on a terminal only."""
    return Console(highlight=False, soft_wrap=True, markup=False)


def err() -> Console:
    """Standard error: progress, notes and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def progress_bar(*columns: ProgressColumn, transient: bool = True) -> Progress:
    """A progress bar on standard error, if that is a terminal; elsewhere nothing, not even the line it would take."""
    screen = err()
    return Progress(*columns, console=screen, transient=transient, disable=not screen.is_terminal)


def say_error(message: str) -> None:
    err().print(f"Error: {message}", style="red")


def say_warning(message: str) -> None:
    err().print(f"Warning: {message}", style="yellow")


def say_dim(message: str) -> None:
    """A remark that is not part of the output."""
    err().print(message, style="dim")


def local_time(seconds: float) -> str:
    """A Unix time in this machine's time zone, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 chunk", "2 chunks"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_result(value: Any, text: str, as_json: bool) -> None:
    """Print a result as JSON or as text."""
    if as_json:
        print_json(value)
    else:
        out().print(text)
