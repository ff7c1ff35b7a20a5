"""Settings: what the environment may say, and the page that lists it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings, setting_names, settings_table
from rag_service.unknown_settings import COMPOSE_VARIABLES, unknown_settings

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


def test_prefixes_come_from_the_setting_or_else_from_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().embedding_prefixes == (None, None)
    monkeypatch.setenv("RAG_EMBEDDING_MODEL", "intfloat/multilingual-e5-small")
    assert load_settings().embedding_prefixes == ("query: ", "passage: ")
    monkeypatch.setenv("RAG_EMBEDDING_QUERY_PREFIX", "")
    monkeypatch.setenv("RAG_EMBEDDING_PASSAGE_PREFIX", "text: ")
    assert load_settings().embedding_prefixes == ("", "text: ")


def test_a_bad_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LIMITS__QUEUED", "many")
    with pytest.raises(InvalidSettings, match="RAG_LIMITS__QUEUED"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("RAG_ALLOWED_HOSTS", '["a b"]', "RAG_ALLOWED_HOSTS: 'a b' is not a host name; "),
        ("RAG_STORE_URL", "here", "RAG_STORE_URL: must be postgresql://"),
        ("RAG_ENGINE", "openai", "RAG_ENGINE=openai needs RAG_UPSTREAM__URL"),
        ("RAG_OCR__LANGUAGES", "??", "RAG_OCR__LANGUAGES: its value has the wrong form. Languages of scans"),
    ],
)
def test_a_bad_value_is_explained_in_words(
    name: str, value: str, said: str, own_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings) as caught:
        load_settings()
    assert f"allowed values): {said}" in str(caught.value)
    assert "Value error" not in str(caught.value)
    assert "pattern" not in str(caught.value)


def test_a_slip_in_a_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_folder: None) -> None:
    monkeypatch.setenv("RAG_ANSWERS_MAX_TOKENS", "5")
    monkeypatch.setenv("RAG_FOO", "1")
    monkeypatch.setenv("rag_retrieval", '{"top_k": 7}')
    Path(".env").write_text("RAG_PROT=9\nrag_port=9\nRAG_BIND=127.0.0.1\nRAG_WORKER_MEMORY=8g\nOTHER=1\n")
    assert unknown_settings() == [
        "RAG_ANSWERS_MAX_TOKENS is not a setting; did you mean RAG_ANSWERS__MAX_TOKENS?",
        "RAG_FOO is not a setting; docs/settings.md lists all settings.",
        "RAG_PROT is not a setting; did you mean RAG_PORT?",
    ]
    monkeypatch.setenv("RAG_RETRIEVAL__TOPK", "5")
    with pytest.raises(InvalidSettings, match="TOPK is not a setting; did you mean RAG_RETRIEVAL__TOP_K"):
        load_settings()


@pytest.mark.parametrize("required", ["true", "false"])
def test_settings_that_are_gone_say_what_replaces_them(
    required: str, own_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And refuse no start, nor open anything."""
    monkeypatch.setenv("RAG_KEYS__REQUIRED", required)
    Path(".env").write_text("RAG_KEYS__REACHED_AT=127.0.0.1\n")
    reached, wanted = unknown_settings()
    assert wanted.startswith("RAG_KEYS__REQUIRED is not a setting any more: every request needs a key now, unless RAG_")
    assert reached.startswith("RAG_KEYS__REACHED_AT is not a setting any more: every request needs a key now")
    assert not load_settings().open_without_key


def test_what_compose_reads_is_no_slip() -> None:
    root = Path(__file__).parents[2]
    read = re.findall(r"\$\{(RAG_\w+)", (root / "docker-compose.yml").read_text(encoding="utf-8"))
    assert set(read) - set(setting_names()) <= COMPOSE_VARIABLES


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]
