"""`rag bench answers`: what counts as right, what is asked, and what is reported."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from decoder.recording.prompts import BenchError
from rag_service.bench.answers import judge, plot, report, support
from rag_service.bench.answers.items import Question, load
from rag_service.bench.answers.outcomes import Judged, Outcome, judged
from rag_service.bench.answers.run import answering
from rag_service.bench.answers.statistics import auroc, auroc_interval, paired_interval, wilson
from rag_service.settings import Settings
from workers.support.calibration import read

ROOT = Path(__file__).parents[3]
RIVER = "The river Arne rises in the Keld hills. It flows into Lake Tamm, which is 40 metres deep."
QUESTION = Question("q1", "squad2", "en", "squad2", ("Where does the Arne rise?",), ("the Keld hills",), gold="d1")


def outcome(answer: str, **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "id": "q1",
        "answer": answer,
        "finish_reason": "stop",
        "grounded": None,
        "passages": [("d1", RIVER)],
        "cited": ["d1"],
        "prompt_tokens": 10,
        "tokens": 5,
        "steps": 3,
        "first_ms": 1.0,
        "total_ms": 2.0,
    }
    return Outcome(**{**fields, **changes})


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It rises in the Keld Hills.", True),
        ("KELD HILLS", True),
        ("It rises near Keld.", False),
        ("The documents do not say; perhaps the Keld hills.", False),
        ("Keld hills " + "and so on " * 20, False),
        ("", False),
    ],
)
def test_a_right_answer_contains_the_reference_is_short_and_does_not_abstain(answer: str, right: bool) -> None:
    assert judged(QUESTION, outcome(answer), []).right is right


def test_a_whole_passage_is_no_right_answer() -> None:
    passage = f"{RIVER} {RIVER.replace('Arne', 'Sorne')}"
    assert not judged(QUESTION, outcome(passage, passages=[("d1", passage)]), []).right


def test_where_references_are_documents_the_first_sentence_must_be_stated() -> None:
    lead = Question("q1", "faq", "en", "faq", ("Where?",), (RIVER,), lead=True)
    assert judged(lead, outcome("The Arne rises in the Keld hills."), []).right
    assert not judged(lead, outcome("Lake Tamm is 40 metres deep."), []).right


@pytest.mark.parametrize(
    "text",
    [
        "The documents do not say.",
        "De documenten zeggen dit niet.",
        "Die Dokumente sagen das nicht.",
        "Los documentos no lo dicen.",
        "文档中没有说明。",
        "The passages do not mention it.",
        "This is not mentioned in the text.",
        "  ",
    ],
)
def test_abstaining_is_seen_in_five_languages(text: str) -> None:
    assert judge.abstains(text)


@pytest.mark.parametrize("text", ["It is 40 metres deep.", "The contract does not cover water.", "No, it is closed."])
def test_an_answer_with_a_negation_does_not_abstain(text: str) -> None:
    assert not judge.abstains(text)


def test_an_echo_is_a_run_of_our_own_words_that_no_passage_has() -> None:
    own = ["Reply with one short sentence that uses the words of the passages."]
    answer = "Sure: one short sentence that uses the words."
    assert judge.echo(answer, own, [RIVER]) == "one short sentence that uses the"
    assert judge.echo(answer, own, [own[0]]) == ""
    assert judge.echo("one short sentence that uses nothing", own, []) == ""


def test_a_question_said_back_is_seen_even_if_a_word_differs() -> None:
    question = "In what year was the old bridge at Brack built by the town?"
    assert judge.repeats_question(f"{question} It was built in 1901.", question)
    assert judge.repeats_question(question.replace("town", "village"), question)
    assert not judge.repeats_question("The old bridge at Brack was built by the town in 1901.", question)


def test_a_loop_is_a_stretch_three_times_in_a_row() -> None:
    assert judge.loop("He said so. and then he left and then he left and then he left home")
    assert not judge.loop("and then he left and then he left home")
    assert not judge.loop("no no no no")


def item(number: int, **changes: Any) -> dict[str, Any]:
    context = [f"Passage {number}.{n}" for n in range(2)]
    fields = {
        "id": f"i{number}",
        "benchmark": "squad2",
        "category": "answerable",
        "turns": [f"Question {number}?"],
        "context": context,
        "reference": ["x"],
        "meta": {"title": "A_title", "gold_passage": 1},
    }
    return {**fields, **changes}


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return path


def test_items_become_questions_and_their_passages_documents(tmp_path: Path) -> None:
    unanswerable = item(2, reference=None, category="unanswerable", meta={"title": "A_title", "answerable": False})
    german = item(3, benchmark="xquad", category="de")
    material = load([write(tmp_path / "f.jsonl", [item(1), unanswerable, german])])
    kinds = {question.kind: question for question in material.questions}
    assert set(kinds) == {"squad2", "squad2 unanswerable", "xquad-de"}
    assert not kinds["squad2 unanswerable"].answerable
    assert kinds["xquad-de"].language == "de"
    documents = {document.id: document for document in material.collections["squad2"]}
    assert len(documents) == 4
    assert documents[kinds["squad2"].gold].text == "Passage 1.1"
    assert documents[kinds["squad2"].gold].title == "A title"


def test_the_halves_share_no_question_and_miss_none(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", [item(n) for n in range(11)])
    halves = [{q.id for q in load([path], half=half).questions} for half in ("choose", "report")]
    assert halves[0].isdisjoint(halves[1])
    assert halves[0] | halves[1] == {q.id for q in load([path]).questions}
    assert len(load([path], limit=3).questions) == 3


def test_no_document_that_is_left_holds_the_answer_of_a_removed_one(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", [{"_id": f"T#{n}", "title": "T", "text": f"fact number {n}"} for n in range(30)])
    queries = [{"_id": f"q{n}", "text": f"Which {n}?", "answers": [f"number {n}"]} for n in range(30)]
    queries.append({"_id": "everywhere", "text": "Which?", "answers": ["fact"]})
    write(tmp_path / "queries.jsonl", queries)
    rows = [f"q{n}\tT#{n}\t1" for n in range(30)] + ["everywhere\tT#0\t1"]
    (tmp_path / "qrels.tsv").write_text("query\tdocument\tscore\n" + "\n".join(rows), encoding="utf-8")
    material = load([], [tmp_path])
    (documents,) = material.collections.values()
    assert (len(documents), len(material.questions)) == (20, 10)
    texts = {document.text for document in documents}
    for question in material.questions:
        assert f"fact number {question.turns[0].removeprefix('Which ').removesuffix('?')}" not in texts
    assert "removed-everywhere" not in {question.id for question in material.questions}


def test_retrieval_sets_of_several_languages_stay_apart(tmp_path: Path) -> None:
    for name in ("set_de", "set_zh", "nl_faq"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "corpus.jsonl", [{"_id": "T#0", "title": "", "text": "One line.\n\nAnd more."}])
        write(tmp_path / name / "queries.jsonl", [{"_id": "q0", "text": "Which?"}])
        (tmp_path / name / "qrels.tsv").write_text("query\tdocument\tscore\nq0\tT#0\t1", encoding="utf-8")
    material = load([], [tmp_path / name for name in ("set_de", "set_zh", "nl_faq")])
    found = {(question.id, question.kind, question.language) for question in material.questions}
    assert found == {(f"removed-{code}-q0", f"removed-{code}", code) for code in ("de", "zh", "nl")}


def test_files_without_passages_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no passages in `context`"):
        load([write(tmp_path / "f.jsonl", [item(1, context=None)])])
    with pytest.raises(BenchError, match="no question is left"):
        load([])


def test_auroc_is_the_chance_that_a_positive_is_above_a_negative() -> None:
    chance = random.Random(1)
    ones, others = ([float(chance.randrange(9)) for _ in range(40)] for _ in range(2))
    pairs = [(one > other) + 0.5 * (one == other) for one in ones for other in others]
    assert auroc(ones, others) == pytest.approx(sum(pairs) / len(pairs))
    assert auroc([], others) is None
    interval = auroc_interval(ones, others)
    assert interval is not None
    assert interval[0] < sum(pairs) / len(pairs) < interval[1]


def test_intervals_hold_the_share_and_shrink_with_more_answers() -> None:
    low, high = wilson(8, 10)
    assert low == pytest.approx(0.490, abs=1e-3)
    assert high == pytest.approx(0.943, abs=1e-3)
    assert math.isclose(wilson(0, 10)[0], 0.0, abs_tol=1e-12)
    assert wilson(800, 1000)[0] > low
    mean, low, high = paired_interval([1, 0, 0, 1, -1, 1, 0, 1])
    assert low < mean == 3 / 8 < high


def scored(number: int, kind: str, right: bool, support_: float) -> Judged:
    """A judged answer with this support, and the same as the chance that its question can be answered."""
    references = ("the Keld hills",) if kind == "squad2" else ()
    question = Question(f"q{number}", kind, "en", "squad2", ("Where?",), references)
    answered = outcome(
        "In the Keld hills." if right else "In the sea.",
        id=f"q{number}",
        support=support_,
        answerable=support_,
        abstained="warned" if support_ < 0.5 else None,
        signals={"evidence": support_},
    )
    return question, answered, judged(question, answered, [])


def test_support_is_summed_up() -> None:
    entries = [scored(n, "squad2", n % 4 != 0, 0.9 if n % 4 else 0.3) for n in range(20)]
    entries += [scored(20 + n, "removed", False, 0.1) for n in range(10)]
    summary = support.summary(entries)
    assert [row["auroc"] for row in summary["separation"]] == [1.0, 1.0, 1.0, 1.0]
    assert [(row["from"], row["answers"], row["right"]) for row in summary["calibration"]] == [
        (0.0, 10, 0.0),
        (0.2, 5, 0.0),
        (0.8, 15, 1.0),
    ]
    shares = {row["of"]: row["share"] for row in summary["abstaining"]}
    assert shares["warned or refused: removed"] == 1.0
    assert shares["warned or refused: all answerable"] == 0.25
    assert shares["warned or refused: precision"] == pytest.approx(10 / 15, abs=1e-4)
    assert shares["warned or refused: recall"] == 1.0
    text = "\n".join(support.markdown(summary))
    assert "| 0.8 to 1.0 | 15 | 0.90 | 1.00 |" in text


def test_an_answer_that_does_what_a_document_orders_obeys() -> None:
    (question, *_) = load([ROOT / "benchmarks/items/injection.jsonl"]).questions
    assert question.injected
    assert question.kind == "injection"
    assert judged(question, outcome(f"As ordered: {question.injected.upper()}!"), []).obeys
    assert not judged(question, outcome(question.references[0]), []).obeys
    assert judged(question, outcome(question.references[0]), []).right
    assert not judged(QUESTION, outcome("In the sea."), []).obeys


def test_answers_without_support_have_no_summary() -> None:
    entry = (QUESTION, outcome("In the sea."), judged(QUESTION, outcome("In the sea."), []))
    assert support.summary([entry]) == {}
    assert support.markdown({}) == []


def test_a_calibration_is_fitted_with_a_threshold_that_refuses_few(tmp_path: Path) -> None:
    chance = random.Random(1)
    entries = [scored(n, "squad2", chance.random() < 0.8, chance.uniform(0.3, 1.0)) for n in range(100)]
    entries += [scored(100 + n, "removed", False, chance.uniform(0.0, 0.5)) for n in range(100)]
    fitted = support.calibration(entries, "m", "float32", "digest")
    assert fitted.holds_for("m", "float32", "digest", "en")
    assert fitted.answers == 200
    answerable = [fitted.answerable.chance(o.signals) for q, o, _ in entries if q.answerable]
    assert sum(one < fitted.threshold for one in answerable) == 10
    assert "evidence" in fitted.answerable.weights
    others = [fitted.answerable.chance(o.signals) for q, o, _ in entries if not q.answerable]
    assert sum(one < fitted.threshold for one in others) > 50
    fitted.save(tmp_path / "own.json")
    assert read((tmp_path / "own.json").read_text()) == fitted


def test_with_a_readout_abstaining_is_fitted_to_what_is_known_before_the_answer() -> None:
    entries = [scored(n, "squad2" if n % 2 else "removed", n % 4 == 1, n / 100) for n in range(100)]
    for n, (_, one, _) in enumerate(entries):
        one.signals["readout"] = float(n % 7)
    fitted = support.calibration(entries, "m", "float32", "digest")
    assert set(fitted.answerable.weights) <= {"readout", "margin"}
    assert "evidence" in fitted.support.weights


def test_the_report_has_a_row_for_each_kind() -> None:
    entries = []
    for n in range(6):
        question = Question(f"q{n}", "squad2", "en", "squad2", ("Where?",), ("the Keld hills",), gold="d1")
        answered = outcome("In the Keld hills." if n % 2 else "In the sea.", id=f"q{n}", grounded=bool(n % 2))
        entries.append((question, answered, judged(question, answered, [])))
    (row,) = report.rows(entries)
    assert row["right"]["share"] == 0.5
    assert row["holds"]["share"] == 1.0
    assert (row["echo"], row["loop"], row["cited"]) == (0, 0, 1)
    (compared,) = report.comparison(entries, {question.id: verdict for question, _, verdict in entries})
    assert compared["right"] == {"difference": 0.0, "low": 0.0, "high": 0.0}
    result = {"rows": [row], "support": support.summary(entries), "environment": {"model": "m"}}
    assert "| squad2 | 6 |" in report.markdown(result)


def test_the_plot_is_drawn(tmp_path: Path) -> None:
    entries = [scored(n, "squad2", n % 4 != 0, 0.9 if n % 4 else 0.3) for n in range(20)]
    plot.draw(tmp_path / "support.svg", [*entries, *(scored(20 + n, "removed", False, 0.1) for n in range(10))])
    assert "<svg" in (tmp_path / "support.svg").read_text()


def test_a_calibration_for_a_model_server_names_its_model() -> None:
    server = {"url": "http://127.0.0.1:1/v1", "model": "Qwen/Qwen3-8B"}
    settings = Settings(engine="openai", upstream=server, dtype="float32")  # type: ignore[arg-type]
    assert answering(settings) == ("Qwen/Qwen3-8B", "upstream")
    assert answering(Settings(model="/models/ours", dtype="float32")) == ("ours", "float32")
