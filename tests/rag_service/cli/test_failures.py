"""Failures of an ingest on the terminal: grouped by reason."""

from __future__ import annotations

import pytest

from rag_service.cli.commands.documents.jobs import print_failures


def test_failures_are_grouped_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    unsupported = [{"name": f"{letter}.xyz", "reason": ".xyz is not supported"} for letter in "abcdefg"]
    empty = {"name": "x.md", "reason": "the file is empty"}
    locked = [{"name": name, "reason": "protected by a password"} for name in ("one.pdf", "two.pdf")]
    print_failures([*unsupported[:3], empty, *unsupported[3:], *locked])
    assert capsys.readouterr().err.splitlines() == [
        "7 files: .xyz is not supported (a.xyz, b.xyz, c.xyz, d.xyz, e.xyz and 2 more)",
        "x.md: the file is empty",
        "2 files: protected by a password (one.pdf, two.pdf)",
    ]
