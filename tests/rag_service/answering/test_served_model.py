"""The name of the target model, and whether it is a toy."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_service.answering.served_model import described
from rag_service.settings import Settings


@pytest.mark.parametrize(
    ("model", "name", "toy"),
    [
        ("smollm2-135m", "smollm2-135m", True),
        ("/data/models/smollm2-135m", "smollm2-135m", True),
        ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b", False),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct", False),
        ("/models/ours", "ours", False),
        ("owner/unknown", "owner/unknown", False),
    ],
)
def test_the_model_is_described(model: str, name: str, toy: bool) -> None:
    told = described(Settings(model=model))
    assert (told["name"], told["toy"]) == (name, toy)
    assert bool(told["note"]) == (name not in ("ours", "owner/unknown"))


def test_a_folder_in_this_folder_has_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models/mine").mkdir(parents=True)
    told = described(Settings(model="models/mine", dtype="float32"))
    assert told == {"name": "mine", "toy": False, "note": "", "dtype": "float32"}
