"""Rows and tables of `rag bench retrieval`: quality by set and mode, times by size. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from decoder.bench.results import environment_lines, table
from rag_service.bench.retrieval.measures import MEASURES, interval

NOTE = """\
Documents are ranked by their best passage, among the first hundred passages. *hybrid − better*: the paired difference
of nDCG@10 between hybrid and the better of dense and lexical on that set. Intervals are of 95 % (bootstrap over
queries).
"""
TIMES_NOTE = """\
Synthetic collections: sentences of real texts put together anew, one chunk a document, vectors that are sums over
words. Times in milliseconds, of a search by `Library.find` for five passages, without embedding the query, which is a
row of its own. *Ratio*: the median of paired ratios to the same search, asked right before or after it, without a
filter, or while nothing is ingested. Another process ingests, as the service's workers do, where no other is named.
*A change*: one document stored or deleted and the search after it, less a search.
"""


def rows(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for every set and mode: the mean and interval of each measure."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["set"], line["mode"]), []).append(line)
    return [
        {"set": name, "mode": mode, "queries": len(found), **{m: _interval([v[m] for v in found]) for m in MEASURES}}
        for (name, mode), found in groups.items()
    ]


def differences(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For every set with all three modes: hybrid less the better of its parts, by nDCG@10."""
    found = []
    for name, modes in _scores(lines).items():
        if not modes.keys() >= {"dense", "lexical", "hybrid"}:
            continue
        asked = [query for query in modes["hybrid"] if query in modes["dense"] and query in modes["lexical"]]
        better = max(("dense", "lexical"), key=lambda mode: sum(modes[mode][query] for query in asked))
        paired = [modes["hybrid"][query] - modes[better][query] for query in asked]
        found.append({"set": name, "better": better, "queries": len(paired), "difference": _interval(paired)})
    return found


def reranked_by(reranker: str, candidates: int) -> str:
    """What hybrid with a reranker is called among the modes."""
    return f"hybrid, best {candidates} by {reranker}"


def gained(lines: Sequence[Mapping[str, Any]], reranked: str) -> list[dict[str, Any]]:
    """For every set with both: hybrid with the reranker less hybrid without, by nDCG@10."""
    found = []
    for name, modes in _scores(lines).items():
        with_it, without = modes.get(reranked, {}), modes.get("hybrid", {})
        if paired := [with_it[query] - without[query] for query in with_it if query in without]:
            found.append({"set": name, "mode": reranked, "queries": len(paired), "difference": _interval(paired)})
    return found


def _scores(lines: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """nDCG@10 by set, mode and query."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for line in lines:
        scores.setdefault(line["set"], {}).setdefault(line["mode"], {})[line["query"]] = line["ndcg@10"]
    return scores


def markdown(result: Mapping[str, Any]) -> str:
    lines = ["# Retrieval", ""]
    if result.get("rows"):
        lines += [NOTE, *_quality(result), ""]
    if result.get("scale"):
        lines += [TIMES_NOTE, *_times(result["scale"]), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def _quality(result: Mapping[str, Any]) -> list[str]:
    body = [
        [row["set"], row["mode"], str(row["queries"]), *(_shown(row[measure]) for measure in MEASURES)]
        for row in result["rows"]
    ]
    lines = [*table(["set", "mode", "queries", *MEASURES], body, left=2), ""]
    body = [
        [row["set"], row["better"], str(row["queries"]), _shown(row["difference"], "+")]
        for row in result["differences"]
    ]
    lines += table(["set", "better part", "queries", "hybrid − better"], body, left=2)
    if result.get("reranked"):
        body = [[row["set"], str(row["queries"]), _shown(row["difference"], "+")] for row in result["reranked"]]
        lines += ["", *table(["set", "queries", f"{result['reranked'][0]['mode']} − hybrid"], body, left=1)]
    return lines


def _times(scale: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for size in scale:
        facts = size["facts"]
        body = [
            [row["what"], str(row["times"]), *(_number(row.get(key)) for key in ("p50", "p95", "ratio"))]
            for row in size["rows"]
        ]
        lines += [
            f"## {facts['chunks']:,} chunks",
            "",
            *(f"* {name}: {value}" for name, value in facts.items()),
            "",
            *table(["what", "times", "p50, ms", "p95, ms", "ratio"], body, left=1),
            "",
        ]
    return lines


def _interval(values: Sequence[float]) -> dict[str, float]:
    mean, low, high = interval(values)
    return {"mean": round(mean, 4), "low": round(low, 4), "high": round(high, 4)}


def _shown(value: Mapping[str, float], sign: str = "") -> str:
    return f"{value['mean']:{sign}.3f} ({value['low']:{sign}.3f} to {value['high']:{sign}.3f})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
