"""`rag train eagle|distil|…`: handed on to `decoder.training`, which has its own options."""

from __future__ import annotations

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def train(context: typer.Context) -> None:
    """Train what drafts for a model; has a --help of its own."""
    from decoder.training import main

    raise typer.Exit(main(context.args, "rag train"))
