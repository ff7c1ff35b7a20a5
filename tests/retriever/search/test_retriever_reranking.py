"""Reranking: a better order than the fusion's, within a budget, and nothing else changed by it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from retriever import Collection, CrossEncoderReranker, Library, RerankerUnavailable, Reranking, SourceDocument
from retriever.search.reranking import BATCH
from tests.support.hash_embedder import HashEmbedder
from tests.support.models.tiny_encoders import tiny_cross_encoder, tiny_embedder

TEXTS = {f"d{n}": f"{n}d the red fox " + "sings at night " * (n % 5 + 1) for n in range(30)}
ASKED = "7q the red fox sings"


class Oracle:
    """Knows which document a question asks for, by the number that both begin with; notes what it is asked."""

    name = "oracle"

    def __init__(self, clock: list[float] | None = None, seconds: float = 0.0) -> None:
        self.batches: list[list[str]] = []
        self.loads = 0
        self.clock, self.seconds = clock, seconds

    def load(self) -> None:
        self.loads += 1
        if self.clock is not None:
            self.clock[0] += 100.0  # loading is not part of the budget

    def scores(self, question: str, texts: Sequence[str], /) -> Sequence[float]:
        self.batches.append(list(texts))
        if self.clock is not None:
            self.clock[0] += self.seconds
        wanted = _number(question)
        return [-abs(_number(text) - wanted) for text in texts]


def _number(text: str) -> int:
    return int(re.findall(r"(\d+)[dq]", text)[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the collection `foxes`, every document's text in one chunk."""
    made = tmp_path_factory.mktemp("library")
    sources = [SourceDocument(document_id=name, title="Foxes", text=text) for name, text in TEXTS.items()]
    Library(made, HashEmbedder()).create("foxes").ingest(sources)
    return made


def foxes(folder: Path, reranking: Reranking | None = None) -> Collection:
    return Library(folder, HashEmbedder(), reranking=reranking).collection("foxes")


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_the_reranker_orders_the_best_and_the_rest_follows(folder: Path, mode: str) -> None:
    before = foxes(folder).find(ASKED, 30, mode)  # type: ignore[arg-type]
    oracle = Oracle()
    after = foxes(folder, Reranking(oracle, candidates=12)).find(ASKED, 30, mode)  # type: ignore[arg-type]
    best, rest = [[one.document_id for one in half] for half in (before.passages[:12], before.passages[12:])]
    expected = sorted(best, key=lambda name: abs(int(name[1:]) - 7))
    assert best != expected, "the fusion has another order"
    assert [one.document_id for one in after.passages] == expected + rest
    assert [one.rank for one in after.passages] == list(range(1, len(before.passages) + 1))
    assert [one.rerank_score for one in after.passages[:12]] == [-abs(int(name[1:]) - 7) for name in expected]
    assert {one.rerank_score for one in after.passages[12:]} == {None}
    own = {one.document_id: one.score for one in before.passages}
    assert all(one.score == own[one.document_id] for one in after.passages), "the score stays the fusion's"
    assert after.margin == before.margin, "how far the best stands out is the search's"
    assert (before.margin is not None) == (mode == "hybrid")
    assert {one.rerank_score for one in before.passages} == {None}


def test_the_wanted_document_comes_first_for_more_questions_than_before(folder: Path) -> None:
    def right(collection: Collection) -> int:
        asked = [f"{n}q the red fox sings" for n in range(30)]
        return sum(collection.search(text, 1)[0].document_id == f"d{n}" for n, text in enumerate(asked))

    assert right(foxes(folder)) < 5
    assert right(foxes(folder, Reranking(Oracle(), candidates=30))) == 30


def test_the_reranker_reads_the_title_too(folder: Path) -> None:
    oracle = Oracle()
    foxes(folder, Reranking(oracle, candidates=3)).search(ASKED, 1)
    assert [len(batch) for batch in oracle.batches] == [3]
    assert all(text.startswith("Foxes\n") for text in oracle.batches[0])


@pytest.mark.parametrize(
    ("budget_ms", "seconds", "scored"),
    [(0, 9.0, 20), (1000, 0.01, 20), (1000, 0.4, 2 * BATCH), (1000, 9.0, BATCH), (1000, 0.25, 4 * BATCH)],
)
def test_scoring_ends_with_the_budget(folder: Path, budget_ms: int, seconds: float, scored: int) -> None:
    clock = [0.0]
    oracle = Oracle(clock, seconds)
    reranking = Reranking(oracle, candidates=20, budget_ms=budget_ms, clock=lambda: clock[0])
    found = foxes(folder, reranking).search(ASKED, 30)
    fused = [one.document_id for one in foxes(folder).search(ASKED, 30)]
    assert [one.rerank_score is not None for one in found] == [True] * scored + [False] * (len(fused) - scored)
    assert {one.document_id for one in found[:scored]} == set(fused[:scored]), "the best ones are scored first"
    assert [one.document_id for one in found[scored:]] == fused[scored:]
    assert sum(map(len, oracle.batches)) == scored


def test_several_collections_and_tenants_are_reranked_too(tmp_path: Path) -> None:
    library = Library(tmp_path, HashEmbedder(), reranking=Reranking(Oracle()))
    for tenant in ("default", "other"):
        for name in ("even", "odd"):
            some = {key: text for key, text in TEXTS.items() if int(key[1:]) % 2 == (name == "odd")}
            sources = [SourceDocument(document_id=key, text=text) for key, text in some.items()]
            library.of(tenant).create(name).ingest(sources)
        found = library.of(tenant).find(["even", "odd"], ASKED, 20).passages
        scores = [one.rerank_score for one in found if one.rerank_score is not None]
        assert len(scores) == 20
        assert scores == sorted(scores, reverse=True)
        assert len({one.collection for one in found[:4]}) == 2


def test_an_ingest_and_an_empty_collection_need_no_reranker(tmp_path: Path) -> None:
    oracle = Oracle()
    collection = Library(tmp_path, HashEmbedder(), reranking=Reranking(oracle, budget_ms=5)).create("empty")
    assert collection.search("fox") == []
    collection.ingest([SourceDocument(text="0d the red fox", document_id="fox")])
    assert (oracle.loads, oracle.batches) == (0, [])
    assert [one.rerank_score for one in collection.search("0q fox")] == [0]
    assert oracle.loads == 1


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")


def test_a_cross_encoder_scores_pairs_by_its_logits(cross_encoder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    texts = ["the red fox sings", "blue whale", "the fox at night " * 40]
    model = AutoModelForSequenceClassification.from_pretrained(cross_encoder)
    tokenizer = AutoTokenizer.from_pretrained(cross_encoder)
    encoded = tokenizer(["red fox"] * 3, texts, padding=True, truncation=True, return_tensors="pt", max_length=64)
    with torch.no_grad():
        expected = model(**encoded).logits[:, 0].tolist()
    reranker = CrossEncoderReranker(cross_encoder)
    assert reranker.name == "tiny-cross-encoder"
    assert reranker._model is None, "nothing is loaded before the first search"
    assert list(reranker.scores("red fox", texts)) == pytest.approx(expected, abs=1e-5)
    assert len(set(expected)) == 3
    assert list(reranker.scores("red fox", [])) == []


def test_a_search_with_a_cross_encoder_is_the_same_each_time(folder: Path, cross_encoder: Path) -> None:
    found = [
        foxes(folder, Reranking(CrossEncoderReranker(cross_encoder), candidates=10)).search(ASKED, 30) for _ in range(2)
    ]
    assert found[0] == found[1]
    scores = [one.rerank_score for one in found[0] if one.rerank_score is not None]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)


def test_a_folder_that_is_no_cross_encoder_is_named(tmp_path: Path, cross_encoder: Path) -> None:
    for made, message in (
        (tmp_path / "nowhere", r"no reranker.*config\.json"),
        (tiny_embedder(tmp_path / "embedder"), r"architecture is BertModel"),
        (tiny_cross_encoder(tmp_path / "classifier", labels=3), "3 labels"),
    ):
        with pytest.raises(RerankerUnavailable, match=message):
            CrossEncoderReranker(made)
    (cross := tmp_path / "weightless").mkdir()
    (cross / "config.json").write_bytes((cross_encoder / "config.json").read_bytes())
    with pytest.raises(RerankerUnavailable, match="pull the model again"):
        CrossEncoderReranker(cross)
    (cross / "model.safetensors").write_bytes(b"half of it")
    with pytest.raises(RerankerUnavailable, match="pull it again"):
        CrossEncoderReranker(cross).load()
    with pytest.raises(RerankerUnavailable, match="cuda:99 is not there"):
        CrossEncoderReranker(cross_encoder, device="cuda:99").load()


def test_scores_that_are_no_numbers_are_refused(cross_encoder: Path) -> None:
    import torch

    reranker = CrossEncoderReranker(cross_encoder)
    reranker.load()
    with torch.no_grad():
        next(iter(reranker._model.parameters())).fill_(float("nan"))
    with pytest.raises(RerankerUnavailable, match="no numbers"):
        reranker.scores("red fox", ["the red fox"])


def test_bfloat16_orders_about_the_same(cross_encoder: Path) -> None:
    half = CrossEncoderReranker(cross_encoder, dtype="bfloat16")
    texts = ["the red fox sings", "blue whale"]
    expected = CrossEncoderReranker(cross_encoder).scores("red fox", texts)
    assert list(half.scores("red fox", texts)) == pytest.approx(list(expected), abs=0.05)
    assert {str(one.dtype) for one in half._model.parameters()} == {"torch.bfloat16"}


def test_how_searches_are_reranked_cannot_be_changed_later() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Reranking(Oracle()).budget_ms = 1  # type: ignore[misc]
