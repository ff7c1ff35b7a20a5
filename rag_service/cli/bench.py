"""`rag bench decode|promise|record|simulate`: handed on to `decoder.bench`; `sessions` to `rag_service.bench`.

Both have options of their own.
"""

from __future__ import annotations

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
SESSIONS = "sessions"


def bench(context: typer.Context) -> None:
    """Measure decoding and conversations: `rag bench --help` lists what there is."""
    if context.args[:1] == [SESSIONS]:
        from rag_service.bench import main as sessions

        raise typer.Exit(sessions(context.args[1:], f"rag bench {SESSIONS}"))
    from decoder.bench import main

    if not context.args or context.args[0] in ("-h", "--help"):
        typer.echo(f"rag bench {SESSIONS}: conversations over HTTP, turn by turn; `rag bench {SESSIONS} --help`\n")
    raise typer.Exit(main(context.args, "rag bench"))
