"""What runs against one engine only says why, and the reasons are listed for people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rag_service.conftest import World

ROOT = Path(__file__).parents[2]


def test_each_skip_has_a_reason_that_is_listed() -> None:
    page = (ROOT / "docs/decisions/rag-service.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\* (.+)$", page.partition("## Tests run against both engines")[2], re.MULTILINE))
    given = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        marks = re.findall(r"mark\.decoder_only\(([^)]*)\)", text)
        reasons = [
            mark if mark.startswith('"') else re.search(rf'^{mark} = (".*")$', text, re.MULTILINE) for mark in marks
        ]
        given |= {(one if isinstance(one, str) else one[1]).strip('"') for one in reasons if one}
        assert None not in reasons, file
    assert given == listed


@pytest.mark.decoder_only("it is about our own engine")
def test_a_marked_test_has_our_own_engine(world: World) -> None:
    assert world.engine == "decoder"


def test_both_engines_have_had_their_turn(world: World, engine_name: str) -> None:
    assert world.engine == engine_name
