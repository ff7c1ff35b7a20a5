"""`rag config show`: the current settings."""

from __future__ import annotations

import typer

from rag_service.cli.console import out, print_json
from rag_service.cli.options import Json, example
from rag_service.cli.stack.in_force import settings_in_force
from rag_service.settings import setting_values

app = typer.Typer(help="Settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Settings."""


@app.command("show", epilog=example("rag config show"))
def show(as_json: Json = False) -> None:
    """Show the settings, from the environment, `.env` and the defaults. Passwords in URLs are hidden."""
    values = setting_values(settings_in_force())
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        out().print(f"{name}={'' if value is None else value}")
