"""Questions in other words than the documents', over examples/documents with the real embedder (scripts/models)."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoder.models import default_models_dir, resolve
from retriever import Collection, Library, SentenceTransformerEmbedder, SourceDocument

DOCUMENTS = Path(__file__).parents[3] / "examples" / "documents"
TOP = 3
MISSED = pytest.mark.xfail(strict=True, reason="other words, and this embedder and the words in common find others")


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    embedder = SentenceTransformerEmbedder(resolve("all-minilm-l6-v2", default_models_dir()))
    collection = Library(tmp_path_factory.mktemp("examples"), embedder).create("examples")
    files = sorted(path for path in DOCUMENTS.iterdir() if path.is_file())
    report = collection.ingest([SourceDocument(name=path.name, path=path) for path in files])
    assert len(report.added) == len(files), report.failures
    return collection


@pytest.mark.parametrize(
    ("question", "stated"),
    [
        ("Can I work remotely?", "Working from home is possible on 3 days a week"),
        ("work remotely", "Working from home is possible on 3 days a week"),
        ("where to gather in a fire", "The assembly point is the car park in front of"),
        pytest.param(
            "Where do we gather if there is a fire?", "The assembly point is the car park in front of", marks=MISSED
        ),
        ("How much money do I get for courses?", "learning budget of 1,200 euros a year"),
        ("vacation days per year", "28 days of paid leave a year"),
        ("How long is the trial period of a new job?", "The probation period is 6 months"),
        ("What do I earn for carrying the pager?", "On-call duty is paid at 300 euros per week"),
        ("how to undo a release", "tide deploy rollback"),
    ],
)
def test_a_paraphrase_finds_its_passage(examples: Collection, question: str, stated: str) -> None:
    passages = [" ".join(passage.text.split()) for passage in examples.search(question, TOP)]
    assert any(stated in passage for passage in passages), passages


def test_a_follow_up_with_its_earlier_question_finds_its_passage(examples: Collection) -> None:
    first = examples.search("How is on-call duty paid?", TOP)
    earlier = [passage.chunk_id for passage in first]
    follow_up = examples.search("And at night?", TOP, candidates=earlier)
    assert any("compensated with time off" in passage.text for passage in follow_up)
