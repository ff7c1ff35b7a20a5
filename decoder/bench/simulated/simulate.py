"""`bench simulate`: scores drafters on recorded answers. Pure counting."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from decoder.bench.results import Row, drafting_cell, environment_lines, table_by_drafter, write_json, write_markdown
from decoder.bench.simulated.replay import make_drafter, replay
from decoder.drafters.context import DrafterContext
from decoder.drafts.stats import DecodeStats
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError, first_repeated
from decoder.recording.record import Recording, read_recordings
from decoder.recording.specs import split_specs
from decoder.request import MAX_NODES


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of one drafter on one answer."""

    recording: Recording
    drafter: str
    stats: DecodeStats
    copied: int


def run_simulate(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """`bench simulate` from its parsed arguments."""
    recordings = [recording for path in options.recorded for recording in read_recordings(path)]
    drafters = split_specs(options.drafters)
    rows = simulate(recordings, drafters, say, max_nodes=options.max_nodes, cost_of_64=options.cost_64)
    facts = environment(
        options.line,
        model=recordings[0].model,
        dtype=recordings[0].dtype,
        max_tokens=max(recording.max_tokens for recording in recordings),
        max_nodes=options.max_nodes,
        cost_of_64_rows=options.cost_64,
        recorded_with=sorted({f"{recording.drafter}, batch {recording.batch}" for recording in recordings}),
    )
    write_json(options.json, {"environment": facts, "rows": rows})
    write_markdown(options.markdown, simulate_markdown(rows, facts))


def simulate(
    recordings: Sequence[Recording],
    drafters: Sequence[str],
    say: Callable[[str], None] = lambda line: None,
    *,
    max_nodes: int = MAX_NODES,
    cost_of_64: float = 1.5,
) -> list[Row]:
    """Score every drafter on every answer.

    A drafter keeps what it learns from answer to answer of a benchmark and starts anew with each benchmark.

    Args:
        max_nodes: most draft nodes per step.
        cost_of_64: assumed cost of a pass over 64 rows, in passes over one row; for drafters that weigh it.

    Returns:
        rows by (benchmark, category, turn, drafter), and for benchmarks of several categories a row `all` per turn.
        `mat` is (tokens - 1) / passes, summed over the answers; `mat_median`, `mat_min` and `mat_max` are over the
        single answers.

    Raises:
        BenchError: no recordings, no drafters, an id and turn recorded twice, or recordings of several models.
    """
    _check(recordings, drafters)
    scores = []
    contexts = {drafter: DrafterContext(cost=AssumedCurve(1.0, cost_of_64)) for drafter in drafters}
    for recording in recordings:
        for drafter in drafters:
            stats, copied = replay(recording, make_drafter(drafter, recording), max_nodes, contexts[drafter])
            scores.append(Score(recording, drafter, stats, copied))
        say(
            f"{recording.id} turn {recording.turn}: {', '.join(f'{s.stats.mat:.2f}' for s in scores[-len(drafters) :])}"
        )
    return _rows(scores, drafters)


def simulate_markdown(rows: Sequence[Row], facts: Mapping[str, object]) -> str:
    """A table of MATs, a table of the drafters' costs, and the environment."""
    lines = ["# Copy drafters on recorded answers", ""]
    lines += ["MAT is (tokens − 1) ÷ target passes after prefill, summed over the answers; plain decoding is 1.00.", ""]
    lines += ["`oracle` is the best earlier continuation in hindsight, up to 64 tokens: the ceiling for copying.", ""]
    mats = table_by_drafter(rows, lambda row: f"{row['mat']:.2f}", totals=("prompts", "tokens"))
    lines += ["## MAT", "", *mats, "", "## Acceptance rate / copied fraction / drafted tokens a step", ""]
    lines += [*table_by_drafter(rows, drafting_cell), ""]
    return "\n".join([*lines, *environment_lines(facts)])


def _rows(scores: Sequence[Score], drafters: Sequence[str]) -> list[Row]:
    categories: dict[str, set[str]] = {}
    for score in scores:
        categories.setdefault(score.recording.benchmark, set()).add(score.recording.category)
    groups: dict[tuple[str, str, int, str], list[Score]] = {}
    for score in scores:
        recording = score.recording
        names = [recording.category, *(["all"] if len(categories[recording.benchmark]) > 1 else [])]
        for name in names:
            groups.setdefault((recording.benchmark, name, recording.turn, score.drafter), []).append(score)
    order = sorted(groups, key=lambda key: (key[0], key[1] == "all", key[1], key[2], drafters.index(key[3])))
    return [_row(key, groups[key]) for key in order]


def _row(key: tuple[str, str, int, str], scores: Sequence[Score]) -> Row:
    tokens = sum(score.stats.tokens for score in scores)
    steps = sum(score.stats.steps for score in scores)
    drafted = sum(score.stats.drafted for score in scores)
    mats = [score.stats.mat for score in scores]
    return {
        "model": scores[0].recording.model,
        "dtype": scores[0].recording.dtype,
        **dict(zip(("benchmark", "category", "turn", "drafter"), key, strict=True)),
        "prompts": len(scores),
        "prompt_tokens": sum(len(score.recording.prompt_ids) for score in scores),
        "tokens": tokens,
        "steps": steps,
        "mat": round((tokens - len(scores)) / steps, 3) if steps else 1.0,
        "mat_median": round(median(mats), 3),
        "mat_min": round(min(mats), 3),
        "mat_max": round(max(mats), 3),
        "acceptance_rate": round(sum(score.stats.accepted for score in scores) / drafted, 4) if drafted else 0.0,
        "copied_fraction": round(sum(score.copied for score in scores) / tokens, 4) if tokens else 0.0,
        "drafted_per_step": round(drafted / steps, 3) if steps else 0.0,
    }


def _check(recordings: Sequence[Recording], drafters: Sequence[str]) -> None:
    if not recordings:
        raise BenchError("nothing is recorded in these files; write answers with `rag bench record`")
    if not drafters:
        raise BenchError("name at least one drafter with --drafters, such as pld,casd,oracle")
    models = {(recording.model, recording.dtype) for recording in recordings}
    if len(models) > 1:
        listed = ", ".join(f"{model} {dtype}" for model, dtype in sorted(models))
        raise BenchError(f"the files hold answers of several models ({listed}); simulate one model at a time")
    if repeated := first_repeated((recording.id, recording.turn) for recording in recordings):
        raise BenchError(f"{repeated[0]}, turn {repeated[1]}, is recorded twice; give each file once")
    for drafter in drafters:
        make_drafter(drafter, recordings[0])
