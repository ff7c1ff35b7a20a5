"""`docs/cli.md`: every command with its arguments, options, defaults and examples, made from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from rag_service.cli import app
from rag_service.cli.console import EXIT_CODES

HEAD = """\
# Command line

`rag COMMAND --help` says the same. This page is generated: `python -m rag_service.reference docs`.

A command uses the API at `--url`, else at `RAG_URL`, else that of the stack that `rag up` started on the same data
folder, else `http://127.0.0.1:8080`. It sends the key `--api-key`, else `RAG_API_KEY`, else, on this machine, the local
key. Answers and lists go to standard output; progress, notes and errors go to standard error. Colours and progress bars
appear on terminals only, and `NO_COLOR` turns colours off. With `--json` standard output is one JSON value; `rag chat`
and `rag sync --watch` print one a line.

On a terminal, `rag collections delete`, `rag docs delete`, `rag sessions erase` and `rag keys revoke` ask before they
do what cannot be undone; `--yes` skips the question. Scripts, without a terminal, are not asked. Commands that take
away more than they name, `rag sessions erase --all` and the removals of `rag sync`, need `--yes` there. `rag restore`
writes only where nothing is.

`rag --install-completion` sets up completion for your shell; `rag --show-completion` prints what it would add.

| exit status | meaning |
|---|---|
"""
GLOBAL = {"help", "install_completion", "show_completion"}


def cli_page() -> str:
    codes = "".join(f"| {status} | {meaning} |\n" for status, meaning in EXIT_CODES.items())
    parts = [HEAD + codes]
    for name, command in commands():
        parts.append(_section(name, command))
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that is not a group, with the words that call it."""

    def walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        subcommands = getattr(command, "commands", None)
        if subcommands is None:
            yield words, command
            return
        for name, subcommand in subcommands.items():
            yield from walk(f"{words} {name}", subcommand)

    yield from walk("rag", typer.main.get_command(app))


def examples(command: Any) -> list[str]:
    """The command lines of a command's examples."""
    lines = (command.epilog or "").partition("\n")[2].splitlines()
    return [line.strip() for line in lines[1:]]


def _section(name: str, command: Any) -> str:
    visible = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in visible if parameter.param_type_name == "argument"]
    options = [p for p in visible if p.param_type_name == "option" and p.name not in GLOBAL]
    usage = " ".join([name, *(_metavar(argument) for argument in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [
        f"## {name}",
        "",
        f"`{usage}`",
        "",
        inspect.cleandoc(command.help).replace("\n", " ").replace("  ", "\n\n"),
    ]
    rows = [(f"`{_metavar(p)}`", _help(p)) for p in arguments]
    rows += [(", ".join(f"`{option}`" for option in (*p.opts, *p.secondary_opts)), _help(p)) for p in options]
    if rows:
        lines += ["", "| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]
    lines += ["", "```console", *(f"$ {line}" for line in examples(command)), "```", ""]
    return "\n".join(lines)


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()) + ("…" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _help(parameter: Any) -> str:
    text = str(getattr(parameter, "help", None) or "").replace("|", "\\|").replace("  [default:", " [default:")
    default = parameter.default
    if default in (None, "", ()) or default is False or callable(default) or "[default:" in text:
        return text
    return f"{text} [default: {str(default).lower() if isinstance(default, bool) else default}]"
