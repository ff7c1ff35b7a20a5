"""What all commands share: where text goes, and how a command fails. Knows no service."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from rag_service.stack.exit_status import DONE, FAILED, INTERRUPTED, UNREACHABLE, USAGE

EXIT_CODES = {
    DONE: "done",
    FAILED: "refused, or part of it failed; of `rag verify`: the answers differ; of `rag doctor`: something is missing",
    USAGE: "wrong usage: no such command or option, or a value that it (or a setting) cannot have",
    UNREACHABLE: "nothing answers where the service, or its Redis, should be",
    INTERRUPTED: "interrupted (Ctrl-C)",
}
"""What the exit status of every command means."""


class CliError(Exception):
    """Ends a command. The message says what to do; `status` is the exit status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


def out() -> Console:
    """Standard output; without colours where it is not a terminal."""
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """Standard error: progress, notes and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say_error(message: str) -> None:
    err().print(f"Error: {message}", style="red", markup=False)


def say_warning(message: str) -> None:
    err().print(f"Warning: {message}", style="yellow", markup=False)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
