"""The name of the target model, and whether it is a toy."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_service.answering.served_model import described, served_names
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


def test_with_a_model_server_it_is_the_servers_model() -> None:
    upstream = {"url": "http://127.0.0.1:8000/v1", "model": "Qwen/Qwen3-8B"}
    settings = Settings(engine="openai", upstream=upstream, model="smollm2-135m")  # type: ignore[arg-type]
    told = described(settings)
    assert told == {"name": "Qwen/Qwen3-8B", "toy": False, "note": "", "dtype": None, "engine": "openai"}
    assert served_names(settings) == {"Qwen/Qwen3-8B"}
    assert served_names(Settings(model="/models/ours")) == {"/models/ours", "ours"}
