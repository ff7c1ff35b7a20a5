"""`rag bench retrieval`: measures by hand, sets from files, and a whole run with a small embedder."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from decoder.recording.prompts import BenchError
from rag_service.bench.retrieval import quality, report, run, scale, sets, synthetic
from rag_service.bench.retrieval.embedders import Remembering, WordSums
from rag_service.bench.retrieval.measures import interval, measured
from retriever import Library, Reranking

TEXTS = {
    "d1": "Penguins breed on the ice in winter. The males keep the eggs warm for two months.",
    "d2": "The bridge opened in 1932. Its arch is made of steel and weighs thousands of tons.",
    "d3": "Bread rises because yeast makes gas. Salt slows the yeast down and gives the crust its taste.",
}
QUERIES = {"q1": "when do penguins breed", "q2": "how much does the arch weigh", "q3": "why does bread rise"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "small"
    found.mkdir()
    with gzip.open(found / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"_id": key, "title": "", "text": text}) + "\n" for key, text in TEXTS.items())
    lines = [json.dumps({"_id": key, "text": text}) for key, text in QUERIES.items()]
    (found / "queries.jsonl").write_text("\n".join([*lines, '{"_id": "q9", "text": "nobody answers"}']) + "\n")
    judged = [f"q{n}\td{n}\t1" for n in (1, 2, 3)]
    (found / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged, "q9\td1\t0"]) + "\n")
    return found


def test_measures_by_hand() -> None:
    found = measured(["x", "a", "y", "b"], {"a": 2.0, "b": 1.0})
    assert found["ndcg@10"] == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / (2 + 1 / math.log2(3)))
    assert found["mrr"] == 0.5
    assert measured(["x"] * 5 + ["a"], {"a": 1.0})["recall@5"] == 0.0
    assert measured([], {"a": 1.0}) == dict.fromkeys(found, 0.0)
    mean, low, high = interval([0.0, 1.0] * 50)
    assert mean == 0.5
    assert 0.38 < low < 0.45
    assert 0.55 < high < 0.62


def test_a_set_leaves_out_queries_without_an_answer_and_halves_do_not_overlap(folder: Path) -> None:
    whole = sets.load(folder)
    assert {query.id for query in whole.queries} == set(QUERIES)
    halves = [{query.id for query in sets.load(folder, half=half).queries} for half in ("choose", "report")]
    assert halves[0] | halves[1] == set(QUERIES)
    assert not halves[0] & halves[1]
    with pytest.raises(BenchError, match=r"queries_train\.jsonl is missing|qrels_train\.tsv is missing"):
        sets.load(folder, "train")
    (folder / "queries.jsonl").write_text("{}\n")
    with pytest.raises(BenchError, match=r"queries\.jsonl:1"):
        sets.load(folder)


def test_hybrid_is_compared_with_its_better_part_on_the_same_queries() -> None:
    values = {"dense": [0.2, 0.4], "lexical": [1.0, 0.5], "hybrid": [1.0, 0.9]}
    lines = [
        {"set": "s", "mode": mode, "query": str(n), "ndcg@10": value}
        for mode, found in values.items()
        for n, value in enumerate(found)
    ]
    (row,) = report.differences(lines)
    assert row["better"] == "lexical"
    assert row["difference"]["mean"] == pytest.approx(0.2)


def test_a_run_measures_sets_and_goes_on_where_it_was_stopped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "make_embedder", lambda *_: WordSums(64))
    out, table, drawn = (tmp_path / f"out.{ending}" for ending in ("json", "md", "svg"))
    arguments = ["--data", str(folder), "--json", str(out), "--markdown", str(table), "--plot", str(drawn)]
    assert run.main(arguments, "rag bench retrieval", Path) == 0
    result = json.loads(out.read_text())
    assert {(row["mode"], row["queries"]) for row in result["rows"]} == {(m, 3) for m in ("dense", "lexical", "hybrid")}
    assert next(row for row in result["rows"] if row["mode"] == "lexical")["recall@10"]["mean"] == 1.0
    assert "hybrid − better" in table.read_text()
    assert drawn.stat().st_size

    measurements = tmp_path / "out.queries.jsonl"
    whole = measurements.read_text().splitlines()
    measurements.write_text("\n".join(whole[:-2]) + "\n")
    asked: list[Any] = []
    monkeypatch.setattr(quality, "ask", _counting(quality.ask, asked))
    assert run.main(arguments, "rag bench retrieval", Path) == 0
    assert len(asked) == 2
    assert json.loads(out.read_text())["rows"] == result["rows"]


class _Worst:
    """A reranker that likes least what answers the question."""

    name = "worst"

    def load(self) -> None:
        pass

    def scores(self, question: str, texts: Sequence[str], /) -> Sequence[float]:
        key = next(key for key, text in QUERIES.items() if text == question)
        return [0.0 if TEXTS[key.replace("q", "d")] in text else 1.0 for text in texts]


def test_a_run_measures_what_a_reranker_changes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "make_embedder", lambda *_: WordSums(64))
    seen: list[Any] = []

    def reranking(settings: Any, model_folder: Any) -> Reranking:
        seen.append((settings.reranker, settings.reranker_budget_ms))
        return Reranking(_Worst(), settings.reranker_candidates)

    monkeypatch.setattr(run, "reranking_of", reranking)
    out, table = tmp_path / "out.json", tmp_path / "out.md"
    arguments = ["--data", str(folder), "--json", str(out), "--markdown", str(table), "--reranker", "owner/worst"]
    assert run.main(arguments, "rag bench retrieval", Path) == 0
    assert seen == [("owner/worst", 0)]
    result = json.loads(out.read_text())
    means = {row["mode"]: row["ndcg@10"]["mean"] for row in result["rows"]}
    assert means.keys() == {"dense", "lexical", "hybrid", "hybrid, best 20 by worst"}
    (gain,) = result["reranked"]
    assert gain["queries"] == 3
    assert gain["difference"]["mean"] == pytest.approx(means["hybrid, best 20 by worst"] - means["hybrid"], abs=1e-3)
    assert gain["difference"]["mean"] < -0.3
    assert len(result["differences"]) == 1, "hybrid is still compared with its better part"
    assert "hybrid, best 20 by worst − hybrid" in table.read_text()


def _counting(ask: Any, asked: list[Any]) -> Any:
    def counted(collection: Any, queries: Any, modes: Any, add: Any) -> None:
        before = len(asked)
        ask(collection, queries, modes, asked.append)
        for line in asked[before:]:
            add(line)

    return counted


def test_synthetic_documents_are_as_many_as_wanted_and_the_same_again(folder: Path) -> None:
    pool = synthetic.sentences([sets.load(folder)])
    one, two = list(synthetic.documents(pool, 20)), list(synthetic.documents(pool, 10, 10))
    assert one[10:] == two
    assert len({document.text for document in one}) == 20
    assert all(document.text and len(document.text.encode()) <= 2 * synthetic.BYTES for document in one)


def test_times_of_a_size(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "INGESTED", 20)
    monkeypatch.setattr(scale, "CHANGES", 2)
    opened = partial(Library, tmp_path / "library", Remembering(WordSums(32)))
    library = opened()
    pool = synthetic.sentences([sets.load(folder)])
    size = scale.measure(opened, library, 60, pool, list(QUERIES.values()), lambda _: None)
    assert size["facts"]["chunks"] == 60
    rows = {row["what"]: row for row in size["rows"]}
    assert {"dense", "lexical", "hybrid", "hybrid, 8 at once", "a change: add", "a change: delete"} <= rows.keys()
    assert all("ratio" in row for what, row in rows.items() if "filter" in what)
    assert {"hybrid, during an ingest", "hybrid, during an ingest by the same process"} <= rows.keys()
    assert library.collection("chunks-60").stats().chunks == 60, "what was added for measuring is gone again"
    again = scale.measure(opened, library, 60, pool, list(QUERIES.values()), lambda _: None)
    assert "ingest, chunks a second" not in again["facts"], "a collection that is kept is not filled again"
    library.close()
