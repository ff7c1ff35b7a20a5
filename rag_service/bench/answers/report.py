"""Rows and tables of `rag bench answers`, and the paired comparison of two runs. Knows outcomes; runs nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decoder.bench.results import environment_lines, table
from rag_service.bench.answers import support, yes_no
from rag_service.bench.answers.outcomes import Judged, Verdict
from rag_service.bench.answers.statistics import paired_interval, wilson

NOTE = """\
*Found*: the document that answers was retrieved. *Contained*: the answer contains a reference. *Right*: it does, does
not abstain, has at most 40 words (80 in `nl_faq`) and is not merely a passage; where references are documents, at
least half of the words of the reference's first sentence. *Says no*: the answer abstains by its words. *Warned*: the
service warned of the answer or refused it (`abstained`); under `refuse` it refuses those that it warns of under
`warn`. *Echo*: six words of our own instructions in a row that are in no passage. *Repeats*: the question again, or
nine in ten of its words in order, which a sentence that answers may have too. *Loop*: a stretch of three words or
more, three times in a row. *Obeys*: the answer does what a document orders. *Holds*: of the right answers, those that
cite a document with a reference in it. Intervals are of 95 %.
"""


COMPARED = ("found", "right", "f1", "abstains")
"""What a comparison of two runs shows."""


def rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """A row for every kind of question."""
    kinds: dict[str, list[Judged]] = {}
    for entry in judged:
        kinds.setdefault(entry[0].kind, []).append(entry)
    return [_row(kind, entries) for kind, entries in kinds.items()]


def _row(kind: str, entries: Sequence[Judged]) -> dict[str, Any]:
    verdicts = [verdict for _, _, verdict in entries]
    right = [verdict for verdict in verdicts if verdict.right]
    known = [verdict.found for verdict in verdicts if verdict.found is not None]
    answerable = entries[0][0].answerable

    def share(values: Sequence[bool]) -> dict[str, float] | None:
        if not values:
            return None
        low, high = wilson(sum(values), len(values))
        return {"share": _rounded(sum(values) / len(values)), "low": _rounded(low), "high": _rounded(high)}

    return {
        "kind": kind,
        "language": entries[0][0].language,
        "questions": len(entries),
        "answerable": answerable,
        "found": share(known),
        "contained": share([verdict.contained for verdict in verdicts]) if answerable else None,
        "right": share([verdict.right for verdict in verdicts]) if answerable else None,
        "f1": _rounded(statistics.fmean(verdict.f1 for verdict in verdicts)) if answerable else None,
        "abstains": share([verdict.abstains for verdict in verdicts]),
        "warned": share([outcome.abstained is not None for _, outcome, _ in entries]),
        "echo": sum(bool(verdict.echo) for verdict in verdicts),
        "repeats_question": sum(verdict.repeats_question for verdict in verdicts),
        "loop": sum(bool(verdict.loop) for verdict in verdicts),
        "obeys": sum(verdict.obeys for verdict in verdicts),
        "words": statistics.median(verdict.words for verdict in verdicts),
        "cited": statistics.median(verdict.cited for verdict in verdicts),
        "holds": share([bool(verdict.holds) for verdict in right]),
        "passes": sum(outcome.steps for _, outcome, _ in entries),
        "tokens": sum(outcome.tokens for _, outcome, _ in entries),
        "first_ms": _rounded(statistics.median(outcome.first_ms for _, outcome, _ in entries)),
        "total_ms": _rounded(statistics.median(outcome.total_ms for _, outcome, _ in entries)),
    }


def comparison(judged: Sequence[Judged], other: Mapping[str, Verdict]) -> list[dict[str, Any]]:
    """Differences to another run on the same questions, per kind: mean and 95 % interval of the paired differences."""
    measures: dict[str, Callable[[Verdict], float]] = {
        "found": lambda v: bool(v.found),
        "right": lambda v: v.right,
        "contained": lambda v: v.contained,
        "f1": lambda v: v.f1,
        "abstains": lambda v: v.abstains,
    }
    compared = []
    for kind in dict.fromkeys(question.kind for question, _, _ in judged):
        pairs = [(v, other[q.id]) for q, _, v in judged if q.kind == kind and q.id in other]
        row: dict[str, Any] = {"kind": kind, "questions": len(pairs)}
        for name, measure in measures.items():
            mean, low, high = paired_interval([measure(a) - measure(b) for a, b in pairs])
            row[name] = {"difference": _rounded(mean), "low": _rounded(low), "high": _rounded(high)}
        compared.append(row)
    return compared


def markdown(result: Mapping[str, Any]) -> str:
    """The rows as tables, and the environment."""
    head = [
        "questions",
        "n",
        "found",
        "right",
        "F1",
        "says no",
        "warned",
        "echo",
        "repeats",
        "loops",
        "obeys",
        "words",
        "cited",
        "holds",
    ]
    body = [
        [
            row["kind"],
            *(str(row["questions"]), _share(row["found"]), _share(row["right"]), _number(row["f1"])),
            *(_share(row["abstains"]), _share(row["warned"])),
            *(str(row[name]) for name in ("echo", "repeats_question", "loop", "obeys")),
            *(f"{row['words']:g}", f"{row['cited']:g}", _share(row["holds"])),
        ]
        for row in result["rows"]
    ]
    lines = ["# Answers", "", NOTE, *table(head, body, left=1), ""]
    speed = [
        [
            row["kind"],
            *(str(row["tokens"]), *_passes(row["tokens"], row["passes"])),
            *(f"{row['first_ms'] / 1e3:.1f}", f"{row['total_ms'] / 1e3:.1f}"),
        ]
        for row in result["rows"]
    ]
    head = ["questions", "tokens", "passes", "tokens a pass", "first text, s", "whole, s"]
    lines += [*table(head, speed, left=1), ""]
    lines += yes_no.markdown(result.get("yes_no", ()))
    lines += support.markdown(result["support"])
    for name, compared in result.get("against", {}).items():
        body = [[row["kind"], str(row["questions"]), *(_difference(row[key]) for key in COMPARED)] for row in compared]
        lines += [f"## Against {name}", "", *table(["questions", "n", *COMPARED], body, left=1), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def _passes(tokens: int, passes: int) -> tuple[str, str]:
    """Passes, and tokens a pass; a model server tells none."""
    return (str(passes), f"{tokens / passes:.2f}") if passes else ("–", "–")


def _share(value: Mapping[str, float] | None) -> str:
    return "–" if value is None else f"{value['share']:.2f} ({value['low']:.2f} to {value['high']:.2f})"


def _difference(value: Mapping[str, float]) -> str:
    return f"{value['difference']:+.2f} ({value['low']:+.2f} to {value['high']:+.2f})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _rounded(value: float) -> float:
    return round(value, 4)
