"""Results on disk: JSON for programs, Markdown tables for people."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from decoder.bench.simulated.simulate import SimulatedRow, row_dicts, simulate
from decoder.recording.environment import environment
from decoder.recording.record import read_recordings
from decoder.recording.specs import split_specs


def run_simulate(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """`bench simulate` from its parsed arguments."""
    recordings = [recording for path in options.recorded for recording in read_recordings(path)]
    drafters = split_specs(options.drafters)
    rows = simulate(recordings, drafters, say, max_nodes=options.max_nodes, cost_of_64=options.cost_64)
    facts = environment(
        options.line,
        model=rows[0].model,
        dtype=rows[0].dtype,
        max_tokens=max(recording.max_tokens for recording in recordings),
        max_nodes=options.max_nodes,
        cost_of_64_rows=options.cost_64,
        recorded_with=sorted({f"{recording.drafter}, batch {recording.batch}" for recording in recordings}),
    )
    write_json(options.json, {"environment": facts, "rows": row_dicts(rows)})
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(simulate_markdown(rows, drafters, facts), encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)


def simulate_markdown(rows: Sequence[SimulatedRow], drafters: Sequence[str], facts: Mapping[str, object]) -> str:
    """One table of MATs, one of what each drafter spends on them, and what it ran on."""
    groups: dict[tuple[str, str, int], dict[str, SimulatedRow]] = {}
    for row in rows:
        groups.setdefault((row.benchmark, row.category, row.turn), {})[row.drafter] = row
    lines = ["# Copy drafters on recorded answers", ""]
    lines += ["MAT is (tokens − 1) ÷ target passes after prefill, summed over the answers; plain decoding is 1.00.", ""]
    lines += ["`oracle` is the best earlier continuation in hindsight, up to 64 tokens: the ceiling for copying.", ""]
    head = ["benchmark", "category", "turn", "answers", "tokens", *drafters]
    body = []
    for (benchmark, category, turn), by_drafter in groups.items():
        first = next(iter(by_drafter.values()))
        mats = [f"{by_drafter[name].mat:.2f}" for name in drafters]
        body.append([benchmark, category, str(turn), str(first.prompts), str(first.tokens), *mats])
    lines += ["## MAT", "", *table(head, body, left=2), ""]
    body = []
    for (benchmark, category, turn), by_drafter in groups.items():
        cells = [
            f"{row.acceptance_rate:.2f} / {row.copied_fraction:.2f} / {row.drafted_per_step:.1f}"
            for row in (by_drafter[name] for name in drafters)
        ]
        body.append([benchmark, category, str(turn), *cells])
    lines += ["## Acceptance rate / copied fraction / drafted tokens a step", ""]
    lines += [*table(["benchmark", "category", "turn", *drafters], body, left=2), ""]
    return "\n".join([*lines, *environment_lines(facts)])


def environment_lines(facts: Mapping[str, object]) -> list[str]:
    return ["## Environment", "", *(f"* {name}: `{value}`" for name, value in facts.items()), ""]


def table(head: Sequence[str], body: Sequence[Sequence[str]], left: int) -> list[str]:
    """A Markdown table whose first `left` columns are text and whose others are numbers."""
    rule = ["---" if column < left else "---:" for column in range(len(head))]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]
