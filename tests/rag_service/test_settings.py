"""Settings: what the environment may say, and the page that lists it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings, settings_table

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_lists_every_setting() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_table(), (
        "docs/settings.md is out of date: run `python -m rag_service.settings > docs/settings.md`"
    )


def test_every_setting_says_what_it_means() -> None:
    rows = [line for line in settings_table().splitlines() if line.startswith("| `RAG_")]
    assert len(rows) > 20
    assert all(row.split("|")[3].strip() not in ("", "None") for row in rows)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("RAG_PORT=1234\nRAG_RETRIEVAL__TOP_K=9\nOTHER=1\n")
    monkeypatch.setenv("RAG_PORT", "4321")
    settings = load_settings()
    assert (settings.port, settings.retrieval.top_k) == (4321, 9)
    assert settings.models_folder == Path(".rag/models")


def test_a_bad_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LIMITS__QUEUED", "many")
    with pytest.raises(InvalidSettings, match="RAG_LIMITS__QUEUED"):
        load_settings()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]
