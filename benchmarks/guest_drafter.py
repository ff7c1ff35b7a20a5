"""`auto` as a guest in SGLang and vLLM: what would be left of it, replayed on recorded answers.

    python benchmarks/guest_drafter.py --recorded FILE.jsonl… --json OUT.json --markdown OUT.md

Each mode takes away what a host does not give: hidden states, logits, the prompt's segments, trees, the choice of a
step's rows. The hosts' own drafters (`host_drafters.py`) stand beside them. Recordings are those of `rag bench record
--keep-logits --keep-hidden LAYER`. Counts only: no model, no host and no clock.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.host_drafters import Children, GuestDrafter, SglangNgram, Suffixes, VllmNgram
from decoder.bench.results import Row, environment_lines, table, write_json, write_markdown
from decoder.bench.simulated.replay import replay
from decoder.drafters import DRAFTERS, Drafter
from decoder.drafters.context import DrafterContext
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.environment import environment
from decoder.recording.record import Recording, read_recordings

COSTS = (1.5, 8.0)
"""Assumed cost of 64 rows, in passes over one row: one answer alone on a GPU, and about 16 answers in one pass."""
Counts = dict[str, list[dict[str, Any]]]
"""Mode -> tokens, passes and rows of each answer, in order."""
PEERS = ("vllm suffix", "vllm suffix, depth 64, factor 2", "sglang ngram 12", "sglang ngram 12 + prompts")
"""The hosts' own drafters that each mode is compared with."""
LEGEND = (
    "Replayed on recorded answers: counts, no times; neither host ran.",
    "",
    "* `auto`: as in our engine. *Tokens only*: without logits and hidden states. *No segments*: also without the "
    "prompt's tags, so that it knows neither passages nor the text under edit.",
    "* `chain k`: vLLM's bounds, one path of at most k tokens. `tree n`: SGLang's, n rows in every pass. Both: tokens "
    "only, no segments, but for what their names say.",
    "* The others are our `pld` and the hosts' own drafters, by default settings but for what their names say. "
    "SGLang's trie holds answers; *prompts* is a change of it.",
    "",
    "*MAT* is (tokens − 1) ÷ target passes after prefill. *Faster* is the speed over plain decoding if a pass costs "
    "what is assumed, on a line through 1 and 64 rows, and drafting takes no time.",
)
SAMPLES = 1000
ALL = "all"
SPLIT = frozenset({"spec_bench", "tidewater"})
"""Benchmarks whose categories are tasks of their own."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A drafter and what its host gives it; `rows` of every pass, or None for one and those that were drafted."""

    name: str
    make: Callable[[], Drafter]
    segments: bool = False
    logits: bool = False
    rows: int | None = None

    def seen(self, recording: Recording) -> Recording:
        """What the host shows of an answer."""
        segments, archive = recording.segments, recording.archive
        return replace(recording, segments=segments if self.segments else (), archive=archive if self.logits else None)


def modes() -> list[Mode]:
    """All modes, in the order of the report; the hosts' own drafters remember what they saw, so make them anew."""

    def chain(most: int, **given: bool) -> Mode:
        name = f"chain {most}" + "".join(f" + {what}" for what in given)
        return Mode(name, lambda: GuestDrafter(most, chain=True, fixed=False), **given)

    def tree(rows: int, **given: bool) -> Mode:
        name = f"tree {rows}" + "".join(f" + {what}" for what in given)
        return Mode(name, lambda: GuestDrafter(rows - 1, chain=False, fixed=True), rows=rows, **given)

    corpora: tuple[Children, Children] = ({}, {})
    memories: tuple[list[list[int]], list[list[int]]] = ([], [])
    return [
        Mode("auto", DRAFTERS["auto"], segments=True, logits=True),
        Mode("auto, tokens only", DRAFTERS["auto"], segments=True),
        Mode("auto, no segments", DRAFTERS["auto"]),
        *(chain(most) for most in (5, 8, 16, 32)),
        chain(32, segments=True),
        tree(12),
        *(tree(rows, logits=True) for rows in (8, 12, 32, 64)),
        tree(32, logits=True, segments=True),
        Mode("pld", DRAFTERS["pld"]),
        Mode("vllm ngram 5, 5 tokens", lambda: VllmNgram(5, 5, 5)),
        Mode("vllm ngram 2-4, 16 tokens", lambda: VllmNgram(2, 4, 16)),
        Mode("vllm suffix", lambda: Suffixes(memories[0])),
        Mode("vllm suffix, depth 64, factor 2", lambda: Suffixes(memories[1], 32, 64, 2)),
        Mode("sglang ngram 12", lambda: SglangNgram(corpora[0]), rows=12),
        Mode("sglang ngram 12 + prompts", lambda: SglangNgram(corpora[1], prompts=True), rows=12),
    ]


def simulate(recordings: list[Recording], cost: float) -> Counts:
    """Replay all answers in all modes; what a mode learns stays from answer to answer."""
    counts: Counts = {}
    for mode in modes():
        context = DrafterContext(cost=AssumedCurve(1.0, cost if mode.rows is None else 1.0))
        for recording in recordings:
            stats, _ = replay(mode.seen(recording), mode.make(), context=context)
            rows = stats.steps + stats.drafted if mode.rows is None else stats.steps * mode.rows
            one = {"task": task(recording), "tokens": stats.tokens - 1, "passes": stats.steps, "rows": rows}
            counts.setdefault(mode.name, []).append(one)
        print(f"{mode.name}: {rate(counts[mode.name], cost):.2f} times plain", file=sys.stderr, flush=True)
    return counts


def task(recording: Recording) -> str:
    """The row of the report that an answer belongs to."""
    name = f"{recording.benchmark} {recording.category}" if recording.benchmark in SPLIT else recording.benchmark
    return f"{name}, turn {recording.turn}" if recording.turn > 1 else name


def rate(counts: list[dict[str, Any]], cost: float) -> float:
    """Tokens in the time of a plain pass if rows cost what `cost` of 64 rows says; with a cost of 1, this is MAT."""
    tokens, passes, rows = (sum(one[name] for one in counts) for name in ("tokens", "passes", "rows"))
    return float(tokens / (passes + (cost - 1) / 63 * (rows - passes))) if passes else 1.0


def against(counts: Counts, name: str, cost: float) -> list[str]:
    """A mode's rate over that of each of PEERS, with the 95 % interval over answers drawn anew."""
    compared = []
    for peer in PEERS:
        ours, theirs, chance = counts[name], counts[peer], random.Random(0)
        ratios = []
        for _ in range(SAMPLES):
            drawn = chance.choices(range(len(ours)), k=len(ours))
            ratios.append(rate([ours[n] for n in drawn], cost) / rate([theirs[n] for n in drawn], cost))
        ratios.sort()
        low, *_, high = ratios[SAMPLES // 40 : -SAMPLES // 40]
        compared.append(f"{rate(ours, cost) / rate(theirs, cost):.2f} ({low:.2f} to {high:.2f})")
    return compared


def summary(runs: dict[float, Counts]) -> list[Row]:
    """The counts of each cost, mode and task, and of all tasks."""
    rows = []
    for cost, counts in runs.items():
        for name, answers in counts.items():
            for label in (ALL, *dict.fromkeys(one["task"] for one in answers)):
                part = [one for one in answers if label in (ALL, one["task"])]
                sums = {what: sum(one[what] for one in part) for what in ("tokens", "passes", "rows")}
                rates = {"mat": round(rate(part, 1), 6), "faster": round(rate(part, cost), 6)}
                head = {"cost_of_64_rows": cost, "mode": name, "task": label, "answers": len(part)}
                rows.append({**head, **sums, **rates})
    return rows


def markdown(runs: dict[float, Counts], facts: dict[str, object]) -> str:
    """Two tables a cost, with a line a mode: over all answers, and by task."""
    lines = ["# `auto` as a guest in SGLang and vLLM", "", *LEGEND, ""]
    for cost, counts in runs.items():
        body, by_task, tasks = [], [], list[str]()
        for name in counts:
            total, *rows = summary({cost: {name: counts[name]}})
            numbers = [f"{total['mat']:.2f}", f"{total['rows'] / total['passes']:.1f}", f"{total['faster']:.2f}"]
            body.append([name, *numbers, *against(counts, name, cost)])
            by_task.append([name, *(f"{row['faster']:.2f}" for row in rows)])
            tasks = [f"{row['task']} ({row['answers']})" for row in rows]
        lines += [f"## If 64 rows cost {cost} passes over one row", ""]
        head = ["mode", "MAT", "rows a pass", "faster", *(f"over {peer}" for peer in PEERS)]
        lines += [*table(head, body, left=1), "", f"*Faster* by task, 64 rows at {cost} (in brackets: answers).", ""]
        lines += [*table(["mode", *tasks], by_task, left=1), ""]
    return "\n".join([*lines, *environment_lines(facts)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate `auto` as a guest in SGLang and vLLM.")
    parser.add_argument("--recorded", type=Path, nargs="+", required=True, help="recorded answers with logits")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    recordings = [recording for path in options.recorded for recording in read_recordings(path)]
    runs = {cost: simulate(recordings, cost) for cost in COSTS}
    command = f"python benchmarks/guest_drafter.py {shlex.join(sys.argv[1:])}"
    models = sorted({f"{recording.model}, {recording.dtype}" for recording in recordings})
    facts = environment(command, models=models, answers=len(recordings), costs_of_64_rows=list(COSTS))
    write_json(options.json, {"environment": facts, "rows": summary(runs)})
    write_markdown(options.markdown, markdown(runs, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
