"""The command line `rag`: one file a command.

Exit status: 0 done; 1 refused, or part of it failed; 2 wrong usage; 3 nothing answers; 130 interrupted.

The only part of the service that may import `decoder.models`, `decoder.bench` and `decoder.training`, lazily;
everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from rag_service.cli import (
    ask,
    bench,
    chat,
    config,
    doctor,
    edit,
    ingest,
    keys,
    models,
    search,
    serve,
    sessions,
    train,
    up,
    verify,
)
from rag_service.cli.console import FAILED, INTERRUPTED, CliError, say_error
from rag_service.errors import RagServiceError


class _Commands(TyperGroup):
    """Turns the project's errors into a line on stderr and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CliError as error:
            say_error(str(error))
            raise typer.Exit(error.status) from None
        except RagServiceError as error:
            say_error(str(error))
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    name="rag",
    help="Answers over your documents, with citations. Start with `rag up`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(up.up)
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.command("ingest")(ingest.ingest)
app.command("ask")(ask.ask)
app.command("edit")(edit.edit)
app.command("chat")(chat.chat)
app.command("search")(search.search)
app.command("sessions")(sessions.sessions)
app.command("verify")(verify.verify)
app.command("doctor")(doctor.doctor)
app.command("bench", context_settings=bench.CONTEXT)(bench.bench)
app.command("train", context_settings=train.CONTEXT)(train.train)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
