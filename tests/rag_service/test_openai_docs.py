"""The examples of docs/openai.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "openai.md"


def test_the_examples_run(api_url: str, world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    code = "".join(blocks).replace("http://127.0.0.1:8080", api_url).replace("rag:notes", "rag:animals")
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    names["client"].close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[-1] == world.stage.text
    assert lines[1].startswith("foxes ")
