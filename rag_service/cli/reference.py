"""`docs/cli.md`: every command with its arguments, options, defaults and an example, as `--help` says them.

Reads the commands themselves, so it cannot say anything else. Knows no service.
"""

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

Commands talk to the stack that `rag up` started on the same data folder, else to `RAG_URL`, else to
`http://127.0.0.1:8080`, with `RAG_API_KEY`, else on this machine with the local key; `--url` and `--api-key` decide
otherwise. Answers and lists go to standard output, progress, notes and errors to standard error. Colours and bars are
for terminals: piped output is plain, and `NO_COLOR` turns them off. With `--json` standard output is one JSON value (of
`rag chat` one a line).

Completion: `rag --install-completion` sets it up for your shell; `rag --show-completion` prints what it would add.

| exit status | meaning |
|---|---|
"""
GLOBAL = {"help", "install_completion", "show_completion"}


def cli_page() -> str:
    """The page."""
    codes = "".join(f"| {status} | {meaning} |\n" for status, meaning in EXIT_CODES.items())
    parts = [HEAD + codes]
    for name, command in commands():
        parts.append(_section(name, command))
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""

    def walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield words, command
            return
        for name, one in inner.items():
            yield from walk(f"{words} {name}", one)

    yield from walk("rag", typer.main.get_command(app))


def examples(command: Any) -> list[str]:
    """The lines of a command's example."""
    lines = (command.epilog or "").partition("\n")[2].splitlines()
    return [line.strip() for line in lines[1:]]


def _section(name: str, command: Any) -> str:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [p for p in shown if p.param_type_name == "option" and p.name not in GLOBAL]
    usage = " ".join([name, *(_metavar(argument) for argument in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [
        f"## {name}",
        "",
        f"`{usage}`",
        "",
        inspect.cleandoc(command.help).replace("\n", " ").replace("  ", "\n\n"),
    ]
    rows = [(f"`{_metavar(p)}`", _said(p)) for p in arguments]
    rows += [(", ".join(f"`{one}`" for one in (*p.opts, *p.secondary_opts)), _said(p)) for p in options]
    if rows:
        lines += ["", "| | |", "|---|---|", *(f"| {what} | {said} |" for what, said in rows)]
    lines += ["", "```console", *(f"$ {line}" for line in examples(command)), "```", ""]
    return "\n".join(lines)


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()) + ("…" if argument.nargs == -1 and not argument.metavar else "")
    return name if argument.required else f"[{name}]"


def _said(parameter: Any) -> str:
    said = str(getattr(parameter, "help", None) or "").replace("|", "\\|").replace("  [default:", " [default:")
    default = parameter.default
    if default in (None, "", ()) or default is False or callable(default) or "[default:" in said:
        return said
    return f"{said} [default: {str(default).lower() if isinstance(default, bool) else default}]"
