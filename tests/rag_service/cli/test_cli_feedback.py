"""What `rag feedback` prints of one rating."""

from __future__ import annotations

from typing import Any

import pytest

from rag_service.cli.commands.operating import feedback

GIVEN: dict[str, Any] = {
    "answer_id": "a1", "session_id": "s1", "rating": "down", "comment": "too short", "created": 0.0,
    "question": "When does the gate open?", "instruction": None, "answer": "At six.", "collection": "site",
    "passages": [{"document_id": "d1", "chunk_id": "c1", "title": "Parking"}], "seed": 0, "finish_reason": "stop",
    "support": 0.5, "tenant": "default", "person": "",
}  # fmt: skip


@pytest.mark.parametrize("instruction", [None, "Translate it into Dutch."])
def test_an_edit_shows_its_question_too(capsys: pytest.CaptureFixture[str], instruction: str | None) -> None:
    feedback._print({**GIVEN, "instruction": instruction})  # type: ignore[typeddict-item]
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    edit = [f"edit:      {instruction}"] if instruction else []
    assert told[1:] == [
        "comment:   too short", "question:  When does the gate open?", *edit, "answer:    At six.", "documents: Parking"
    ]  # fmt: skip
