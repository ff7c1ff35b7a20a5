"""What all commands share: where text goes, and how a command fails. Knows no service."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

DONE = 0
FAILED = 1
"""The service refused, or part of the work failed."""
USAGE = 2
UNREACHABLE = 3
"""Nothing answers where the service should be."""
INTERRUPTED = 130


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


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
