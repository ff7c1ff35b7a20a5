"""`rag bench decode|record|simulate`: handed on to `decoder.bench`, which has its own options."""

from __future__ import annotations

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def bench(context: typer.Context) -> None:
    """Measure decoding; has a --help of its own."""
    from decoder.bench import main

    raise typer.Exit(main(context.args, "rag bench"))
