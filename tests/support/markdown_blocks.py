"""The examples of a Markdown page, and how each kind of them is run or checked.

A comment right before a block, `<!-- not run: reason -->`, says that tests cannot run it; its syntax is checked all the
same, and so are the `rag` commands in it. `<!-- full: reason -->` leaves it to the long suites.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
import yaml
from markdown_it import MarkdownIt

from rag_service.cli import app
from rag_service.settings import Settings, setting_values
from rag_service.unknown_settings import COMPOSE_VARIABLES

SHELLS = {"console", "bash"}
RUN = SHELLS | {"python"}
READ = {"yaml", "json", "nginx", "ini", "toml"}
SHOWN = {"", "text"}
"""Languages of what nobody runs: outputs and drawings."""

_MARKER = re.compile(r"<!-- (not run|full): (.+?) -->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    not_run: str | None
    """Why tests cannot run it; None where they do."""
    full: bool = False
    """Whether it is for the long suites."""

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    marker: tuple[str, str] | None = None
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            assert token.map is not None
            code = token.content
            kind, reason = marker or ("", None)
            yield Block(page, token.map[0] + 1, token.info.strip(), code, reason, kind == "full")
            marker = None
        elif token.type == "html_block" and (found := _MARKER.fullmatch(token.content.strip())):
            marker = (found[1], " ".join(found[2].split()))
        elif token.type == "inline":
            marker = None


def script(block: Block) -> str:
    """The commands of a block: of a console those behind `$ `, with the lines that go on; of bash all of it."""
    if block.language == "bash":
        return block.code
    lines: list[str] = []
    ends: str | None = None
    going_on = False
    for line in block.code.splitlines():
        if ends is not None:
            lines.append(line)
            ends = None if line == ends else ends
        elif line.startswith("$ ") or going_on:
            lines.append(line.removeprefix("$ "))
            going_on = line.endswith("\\")
            if here := re.search(r"<<'(\w+)'", line):
                ends = here[1]
    return "\n".join(lines) + "\n"


def check(block: Block) -> None:
    """Check a block that is not run: that it could be read by what it is for."""
    if block.language == "python":
        compile(block.code, block.where, "exec")
    elif block.language in SHELLS:
        code = script(block)
        read = subprocess.run(["bash", "-n"], input=code, text=True, capture_output=True, check=False)
        assert read.returncode == 0, f"{block.where}: {read.stderr}"
        for command in rag_commands(code):
            check_command(command)
    elif block.language == "yaml":
        assert [part for part in yaml.safe_load_all(block.code) if part], block.where
    elif block.language == "json":
        json.loads(block.code)
    elif block.language == "ini":
        known = {*setting_values(Settings(_env_file=None)), *COMPOSE_VARIABLES}  # type: ignore[call-arg]
        for line in filter(None, (line.partition("#")[0].strip() for line in block.code.splitlines())):
            assert line.partition("=")[0] in known, f"{block.where}: {line}"
    elif block.language == "toml":
        assert tomllib.loads(block.code), block.where
    elif block.language == "nginx":
        check_nginx(block)
    else:
        assert block.language in SHOWN, f"{block.where}: nothing checks blocks of {block.language!r}"


def rag_commands(code: str) -> Iterator[list[str]]:
    """The arguments of every `rag` command of a script; placeholders and pipes end one."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"[|;&]|\$\(|\s#\s", line):
            words = shlex.split(part.rstrip(")"), comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                del words[0]
            if words[:1] == ["rag"]:
                yield list(takewhile(lambda word: word[:1] not in ("<", ">"), words[1:]))


def check_command(words: list[str]) -> None:
    """Raises a usage error unless the command, its options and their values are known."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("rag", list(words), resilient_parsing=False)
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        if name in ("bench", "train"):
            check_own(name, rest)
            return
        context = command.make_context(name, rest, parent=context)


def check_own(name: str, words: list[str]) -> None:
    """Of commands that read their arguments themselves."""
    if words and "--help" not in words:
        if words[0] == "answers":
            from rag_service.bench.answers.run import build_parser as answers_parser

            answers_parser("rag bench answers").parse_args(words[1:])
            return
        if name == "bench":
            from decoder.bench.cli import build_parser
        else:
            from decoder.training.cli import build_parser
        build_parser(f"rag {name}").parse_args(words)


def check_nginx(block: Block) -> None:
    """Every directive ends, and every brace closes. nginx itself would also know the directives' names."""
    code = re.sub(r"#.*", "", block.code)
    depth = 0
    for directive, end in re.findall(r"([^;{}]*)([;{}])", code):
        form = r"\s*" if end == "}" else r"\s*[a-z_]+(\s+\S+)*\s*"
        assert re.fullmatch(form, directive), f"{block.where}: {directive!r}"
        depth += {"{": 1, "}": -1, ";": 0}[end]
        assert depth >= 0, block.where
    assert depth == 0, block.where
    assert not re.sub(r"[^;{}]*[;{}]", "", code).strip(), block.where
