"""The examples of docs/langchain.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rag_service.client import RagClient

PAGE = Path(__file__).parents[2] / "docs" / "langchain.md"


def test_the_examples_run(
    live_url: str,
    world: Any,
    own_folder: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAG_URL", live_url)
    world.stage.text = "Backups are kept for thirty-five days."
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    try:
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), {})
    finally:
        with RagClient(live_url) as rag:  # other tests know which collections there are
            rag.delete_collection("notes")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [world.stage.text, world.stage.text, "2", world.stage.text]
    assert f"{world.stage.text} 0" in lines
    assert lines[-1].endswith(world.stage.text)
