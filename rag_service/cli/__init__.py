"""The command line `rag`: commands by what they are about in `commands/`, those that run a stack in `stack/`.

Every command imports what is heavy when it runs. Only this package and `rag_service.bench` import `decoder.models`,
`decoder.bench` and `decoder.training`.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rag_service.cli.commands.asking import ask, chat, rate, search, sessions, verify
from rag_service.cli.commands.documents import collections, docs, ingest, jobs
from rag_service.cli.commands.models import delegated, models
from rag_service.cli.commands.operating import audit, backup, config, feedback, keys, mcp, usage
from rag_service.cli.console import CliError, say_error
from rag_service.cli.options import example
from rag_service.cli.plain_text import check_text
from rag_service.cli.stack import doctor, serve, stop, up
from rag_service.cli.sync import command as sync
from rag_service.errors import InvalidSettings
from rag_service.service_error import RagServiceError
from rag_service.stack.exit_status import FAILED, INTERRUPTED, USAGE


class _Commands(TyperGroup):
    """Turns our errors into a line on standard error and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return self._checked(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's
            raise
        except (CliError, RagServiceError) as error:
            say_error(str(error))
            status = error.status if isinstance(error, CliError) else FAILED
            raise typer.Exit(USAGE if isinstance(error, InvalidSettings) else status) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    def _checked(self, ctx: Any) -> Any:
        """Raises CliError for an argument that cannot be sent. File names may be anything, so not all are checked."""
        try:
            return super().invoke(ctx)
        except UnicodeEncodeError as error:
            check_text(error.object[error.start : error.end])
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            below = [name for name, group in self.commands.items() if args[0] in getattr(group, "commands", ())]
            if below:
                meant = ", ".join(f"`rag {name} {args[0]}`" for name in below)
                raise CliError(f"There is no command `rag {args[0]}`. Did you mean {meant}?", USAGE)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    name="rag",
    help="Answers over your documents, with citations. Start with `rag up`.",
    epilog=example("rag up", "rag ingest ~/notes -c notes", 'rag ask "How long are backups kept?" -c notes'),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"rag-service {version('rag-service')}")
        raise typer.Exit


@app.callback()
def _rag(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answers over your documents, with citations. Start with `rag up`."""
    if not sys.stderr.isatty():  # transformers and huggingface_hub read it when they are imported
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


QUESTION = '"How long are backups kept?"'
app.command("up", epilog=example("rag up", "rag up --port 0"))(up.up)
app.command("stop", epilog=example("rag stop"))(stop.stop)
app.command("serve", epilog=example("RAG_REDIS_URL=redis://redis:6379/0 rag serve --host 0.0.0.0"))(serve.serve)
app.command("worker", epilog=example("RAG_REDIS_URL=redis://redis:6379/0 RAG_DEVICE=cuda rag worker"))(serve.worker)
app.command("ingest", epilog=example("rag ingest ~/notes -c notes", "rag ingest report.pdf --json"))(ingest.ingest)
app.command(
    "sync",
    epilog=example(
        "rag sync ~/notes -c notes --dry-run",
        "rag sync ~/notes -c notes --watch --yes",
        "rag sync s3://archive/contracts -c contracts --endpoint-url http://127.0.0.1:9000",
    ),
)(sync.sync)
app.command("ask", epilog=example(f"rag ask {QUESTION} -c notes", f"rag ask {QUESTION} --json | jq .citations"))(
    ask.ask
)
app.command("edit", epilog=example('rag edit 5c9d… "Say the number of days first."'))(ask.edit)
app.command("chat", epilog=example("rag chat -c notes", "rag chat --json < questions.txt"))(chat.chat)
app.command("rate", epilog=example('rag rate 5c9d… down --comment "It names no page."'))(rate.rate)
app.command("search", epilog=example('rag search "backups" -c notes --top-k 3'))(search.search)
app.command("verify", epilog=example(f"rag verify {QUESTION} -c notes"))(verify.verify)
app.command("doctor", epilog=example("rag doctor"))(doctor.doctor)
app.command("bench", context_settings=delegated.CONTEXT, epilog=example("rag bench decode --help"))(delegated.bench)
app.command("train", context_settings=delegated.CONTEXT, epilog=example("rag train eagle --help"))(delegated.train)
app.command(
    "mcp",
    epilog=example("rag mcp", "rag mcp --url http://rag.example.org:8080", "rag mcp --http --port 8090"),
)(mcp.mcp)
app.command("audit", epilog=example("rag audit --days 7", "rag audit --tenant research --json"))(audit.audit)
app.command("usage", epilog=example("rag usage --days 7", "rag usage --tenant research --json"))(usage.usage)
app.command("feedback", epilog=example("rag feedback --rating down --days 7", "rag feedback --json > feedback.json"))(
    feedback.feedback
)
app.command("backup", epilog=example("rag backup rag.tar.gz", "rag backup /mnt/backups/rag.tar.gz --force --json"))(
    backup.backup
)
app.command("restore", epilog=example("rag restore rag.tar.gz", "rag restore rag.tar.gz --check"))(backup.restore)
app.add_typer(collections.app, name="collections")
app.add_typer(docs.app, name="docs")
app.add_typer(jobs.app, name="jobs")
app.add_typer(sessions.app, name="sessions")
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
