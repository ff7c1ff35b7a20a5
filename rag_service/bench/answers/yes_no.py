"""Answers to questions for a yes or no, by what is true: how many are right, and what readers are told of the others.

Knows outcomes; runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decoder.bench.results import table
from rag_service.bench.answers import judge
from rag_service.bench.answers.outcomes import Judged

NOTE = """\
An answer that begins with yes or no is right if that is the right one; another, if it states what decides (phrases
that were written down beside the question). *Warned*: with a remark that it has to be checked, or refused. *Nearest*:
it came with the nearest sentence of the documents, and this decides.
"""
COUNTS = (
    "right", "right_statements", "right_warned", "refusals", "wrong", "wrong_warned", "nearest", "nearest_decides",
)  # fmt: skip
"""What is counted of the questions with one truth. Of those that the documents do not answer, refusals are right."""


UNKNOWN = "not in the documents"


def summary(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """A row for each truth; [] without such questions."""
    truths: dict[str, list[Judged]] = {"yes": [], "no": [], UNKNOWN: []}
    for entry in judged:
        if entry[0].statements is not None:
            truths[_truth(entry)].append(entry)
    return [_row(truth, entries) for truth, entries in truths.items() if entries]


def _truth(entry: Judged) -> str:
    references = entry[0].references
    if not references:
        return UNKNOWN
    return "yes" if judge.says_yes(references[0]) else "no"


def _row(truth: str, entries: Sequence[Judged]) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTS, 0)
    for question, outcome, verdict in entries:
        warned = outcome.note is not None
        right = verdict.abstains if truth == UNKNOWN else verdict.right
        counts["right"] += right
        counts["right_statements"] += verdict.right and judge.says_yes(outcome.answer) is None
        counts["right_warned"] += right and warned
        counts["refusals"] += verdict.abstains
        counts["wrong"] += not right and not verdict.abstains
        counts["wrong_warned"] += not right and not verdict.abstains and warned
        counts["nearest"] += bool(outcome.nearest)
        counts["nearest_decides"] += judge.states(outcome.nearest, question.statements or ())
    return {"truth": truth, "questions": len(entries), **counts}


def markdown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as a table; [] without any."""
    if not rows:
        return []
    head = ["truth", "n", "right", "as statements", "with a warning", "refusals", "wrong", "with a warning"]
    head += ["nearest shown", "and decides"]
    body = [[row["truth"], str(row["questions"]), *(str(row[name]) for name in COUNTS)] for row in rows]
    return ["## Yes and no", "", NOTE, *table(head, body, left=1), ""]
