"""`rag stop`: ends the `rag up` of a data folder, and waits until all of it has ended."""

from __future__ import annotations

import os
import signal
import time

from rag_service.access import running
from rag_service.cli.console import CliError, err
from rag_service.cli.stack.data_folder import is_in_use
from rag_service.cli.stack.in_force import settings_in_force

POLL_S = 0.1
PATIENCE_S = 60.0
"""Seconds that it may take: a worker returns its unfinished answers to the queue first."""


def stop() -> None:
    """Stop the `rag up` of this data folder, in whatever terminal it runs. Nothing is lost."""
    data_dir = settings_in_force().data_dir
    stack = running.read(data_dir)
    if not is_in_use(data_dir):
        err().print(f"No `rag up` runs on {data_dir.resolve()}.")
        return
    if stack is None:
        raise CliError(
            f"`rag up` is still starting on {data_dir.resolve()}. Press Ctrl-C where it runs, or try again when it is "
            "ready."
        )
    try:
        os.kill(stack.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        raise CliError(f"`rag up` (process {stack.pid}) belongs to another user, who can stop it.") from None
    until = time.monotonic() + PATIENCE_S
    while is_in_use(data_dir):
        if time.monotonic() > until:
            raise CliError(f"`rag up` (process {stack.pid}) has not ended within {PATIENCE_S:.0f} seconds.")
        time.sleep(POLL_S)
    err().print(f"Stopped {stack.url} (process {stack.pid}).")
