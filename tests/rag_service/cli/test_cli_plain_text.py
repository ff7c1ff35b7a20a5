"""Text that is not UTF-8 is refused as any wrong argument is, on the command line and from a pipe."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from rag_service.cli import app
from rag_service.cli.console import CliError
from rag_service.cli.plain_text import check_text
from tests.support.command_line import nowhere, rag

pytestmark = pytest.mark.usefixtures("own_folder")

LATIN = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    "command",
    [
        ("ask", LATIN, "-c", "animals"),
        ("ask", "What?", "-c", LATIN),
        ("ask", "What?", "-c", "animals", "-w", f"team={LATIN}"),
        ("ask", "What?", "-c", "animals", "-w", '{"team": "\\udce9"}'),
        ("search", LATIN, "-c", "animals"),
        ("edit", LATIN, "x"),
        ("collections", "delete", LATIN, "--yes"),
        ("docs", "show", LATIN, "-c", "animals"),
        ("sessions", "erase", LATIN, "--yes"),
    ],
)
def test_an_argument_that_is_not_utf_8_says_what_to_do(api_url: str, command: tuple[str, ...]) -> None:
    result = rag(*command, "--url", api_url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "The text has the byte 0xE9, so it is not UTF-8. Give it in UTF-8" in result.stderr


def test_a_sign_that_is_no_text_is_named() -> None:
    with pytest.raises(CliError, match=r"U\+D800, which is not UTF-8"):
        check_text("a\ud800")
    check_text("café \U0001f600")


def test_other_errors_of_encodings_are_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **options: object) -> None:
        "é".encode("ascii")

    monkeypatch.setattr("rag_service.cli.commands.asking.ask.connect", fails)
    assert isinstance(rag("ask", "What?", "--url", nowhere()).exception, UnicodeEncodeError)


def test_a_line_from_a_pipe_that_is_not_utf_8_is_refused_and_the_next_one_answered(api_url: str) -> None:
    said = b"caf\xe9?\nWhat jumps?\n"
    shown = CliRunner().invoke(app, ["chat", "-c", "animals", "--url", api_url], input=said)
    assert shown.exit_code == 2
    assert "> caf??" in shown.stdout
    assert "> What jumps?" in shown.stdout
    assert "the byte 0xE9" in shown.stderr
    result = CliRunner().invoke(app, ["chat", "-c", "animals", "--json", "--url", api_url], input=said)
    refused, answer = map(json.loads, result.stdout.splitlines())
    assert (result.exit_code, refused["code"], "0xE9" in refused["error"]) == (2, "", True)
    assert answer["answer"]
