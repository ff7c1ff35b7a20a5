"""Pages made from the code are up to date, and every command has what the page says of all."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rag_service.api.metrics import METRICS, exposition
from rag_service.cli import app
from rag_service.cli.console import EXIT_CODES
from rag_service.cli.reference import commands, examples
from rag_service.reference import PAGES
from tests.support.markdown_blocks import check_command, rag_commands

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = dict(commands())
WITHOUT_JSON = {"rag up", "rag stop", "rag serve", "rag worker", "rag mcp", "rag bench", "rag train"}
"""Processes, and what has options of its own."""


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), (
        f"docs/{name} is out of date: run `python -m rag_service.reference docs`"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_its_help_with_an_example_that_parses(name: str) -> None:
    lines = examples(COMMANDS[name])
    assert lines
    found = list(rag_commands("\n".join(lines)))
    assert len(found) == len(lines)
    for words in found:
        check_command(words)
        assert " ".join(["rag", *words]).startswith(name)
    if name not in ("rag bench", "rag train"):
        shown = CliRunner().invoke(app, [*name.split()[1:], "--help"])
        assert shown.exit_code == 0
        assert lines[0] in shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_what_an_option_wants_in_words(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split()[1:], "--help"]).stdout.partition("Options:")[2]
    for left_bare in ("<str>", "<int", "<float", "<path>"):
        assert left_bare not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usage_says_once_that_an_argument_may_be_several(name: str) -> None:
    usage = CliRunner().invoke(app, [*name.split()[1:], "--help"]).stdout.partition("\n\n")[0]
    assert "…" not in usage, "typer writes dots behind it"
    if (number := usage.count("...")) and name not in ("rag bench", "rag train"):
        assert f"`{name} " in (page := PAGES["cli.md"]())
        assert page.partition(f"`{name} ")[2].partition("`")[0].count("…") == number


def test_the_help_of_benchmarks_lists_all_of_them_below_the_usage() -> None:
    shown = CliRunner().invoke(app, ["bench", "--help"]).stdout
    assert shown.startswith("usage: rag bench [-h] COMMAND ...")
    listed = re.findall(r"^ {4}(\w+)", shown.partition("  COMMAND\n")[2].partition("options:")[0], re.MULTILINE)
    assert listed == [
        *("decode", "promise", "record", "simulate", "replay"),
        *("sessions", "citations", "answers", "retrieval"),
    ]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - WITHOUT_JSON))
def test_programs_can_read_what_a_command_prints(name: str) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[name].params)


def test_options_of_one_name_mean_the_same_everywhere() -> None:
    short: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for parameter in command.params:
            for one in parameter.opts:
                if one.startswith("-") and not one.startswith("--"):
                    short.setdefault(one, set()).add(
                        parameter.opts[0] if len(parameter.opts) == 1 else max(parameter.opts, key=len)
                    )
    known = {
        "-c": {"--collection"},
        "-o": {"--output"},
        "-s": {"--session"},
        "-t": {"--tenant"},
        "-v": {"--verbose"},
        "-w": {"--where"},
        "-y": {"--yes"},
    }
    assert short == known | ({"-h": short["-h"]} if "-h" in short else {})


def test_exit_codes_are_listed() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert set(EXIT_CODES) == {0, 1, 2, 3, 130}
    for status in EXIT_CODES:
        assert f"| {status} |" in page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_is_told_how_to_complete(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # the shell that runs the tests, if any
    told = CliRunner().invoke(app, ["--show-completion", shell])
    assert told.exit_code == 0
    assert {"bash": "COMP_CWORD", "zsh": "#compdef", "fish": "fish_source|complete"}[shell].split("|")[
        -1
    ] in told.stdout
    assert "_RAG_COMPLETE" in told.stdout


def test_words_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, wanted in (
        ("rag do", {"docs", "doctor"}),
        ("rag jobs wa", {"wait"}),
        ("rag ask x --speculation pl", {"plain", "pld", "pld_plus"}),
    ):
        typed = words.split(" ")
        environment = {"_RAG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1)}
        told = CliRunner().invoke(app, prog_name="rag", env={**os.environ, **environment})
        assert set(told.stdout.split()) == wanted


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    values: dict[str, Any] = {"rag_workers": 2, "rag_queue_depth": {"generate": 1, 'a"b\\': 0}}
    assert exposition(values) == (
        "# HELP rag_workers Workers with a recent heartbeat.\n# TYPE rag_workers gauge\nrag_workers 2.0\n"
        "# HELP rag_queue_depth Jobs that wait for a worker.\n# TYPE rag_queue_depth gauge\n"
        'rag_queue_depth{queue="generate"} 1.0\nrag_queue_depth{queue="a\\"b\\\\"} 0.0\n'
    )
    tokens = {("upstream", "default", "a|b", "prompt"): 7}
    assert exposition({"rag_tokens_total": tokens}).splitlines()[-1] == (
        'rag_tokens_total{engine="upstream",kind="prompt",model="a|b",upstream="default"} 7.0'
    )
    assert all(metric.name.endswith("_total") == (metric.kind == "counter") for metric in METRICS)
    with pytest.raises(KeyError, match="rag_other"):
        exposition({"rag_other": 1})


def test_help_names_the_setting_that_gives_a_default() -> None:
    """And usage has no brackets in brackets."""
    settings = {"host", "port", "max_tokens", "top_k", "speculation"}
    for name, command in commands():
        for parameter in command.params:
            assert not (parameter.metavar or "").startswith("["), f"{name}: {parameter.name}"
            if parameter.name in settings and name != "rag mcp":
                assert "[default: RAG_" in parameter.help, f"{name}: {parameter.name}"
