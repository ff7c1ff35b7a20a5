"""The time that `auto` drafts and learns in a step, over recorded answers, without a model and on one core.

    python benchmarks/draft_time.py --json OUT.json --markdown OUT.md

Answers are replayed one at a time, and eight at a time step by step, as an engine would decode them; a step of eight is
the sum of its answers' times. Not in it: the pass, the choice of tokens, and reading the recording.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.bench.simulated.replay import make_drafter, replayed_steps
from decoder.drafters.context import DrafterContext
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.environment import environment
from decoder.recording.record import Recording, read_recordings

RECORDED = Path(__file__).resolve().parents[1] / "tests" / "decoder" / "recorded" / "answers.tar.xz"
AT_ONCE = (1, 8)


class Clock:
    """Milliseconds of a step so far, summed over the answers of the step."""

    def __init__(self) -> None:
        self.ms = {"draft": 0.0, "observe": 0.0}

    def watch(self, drafter: Any) -> None:
        for name in self.ms:
            setattr(drafter, name, self._timed(name, getattr(drafter, name)))

    def take(self) -> tuple[float, float]:
        taken = self.ms["draft"], self.ms["observe"]
        self.ms = dict.fromkeys(self.ms, 0.0)
        return taken

    def _timed(self, name: str, method: Any) -> Any:
        def timed(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.ms[name] += 1e3 * (time.perf_counter() - started)

        return timed


def step_times(recordings: Sequence[Recording], at_once: int) -> list[tuple[float, float]]:
    """(drafting, learning) in milliseconds of every step in which `at_once` answers took part."""
    context, clock = DrafterContext(cost=AssumedCurve(1.0, 1.5)), Clock()
    waiting, running, times = list(recordings), list[Iterator[object]](), list[tuple[float, float]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            drafter = make_drafter("auto", waiting[0])
            clock.watch(drafter)
            running.append(replayed_steps(waiting.pop(0), drafter, context=context))
            next(running[-1])
        clock.take()  # what came at prefill
        finished = [steps for steps in running if next(steps, None) is None]
        if not finished and len(running) == at_once:
            times.append(clock.take())
        running = [steps for steps in running if steps not in finished]
    return times


def row_of(at_once: int, times: Sequence[tuple[float, float]]) -> dict[str, Any]:
    totals = sorted(sum(one) for one in times)
    return {
        "answers_at_once": at_once,
        "steps": len(times),
        "draft_ms": round(median(draft for draft, _ in times), 3),
        "observe_ms": round(median(observe for _, observe in times), 3),
        "step_ms": round(median(totals), 3),
        "step_p95_ms": round(totals[int(0.95 * (len(totals) - 1))], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recorded", type=Path, default=RECORDED, help="an archive with answers.jsonl")
    parser.add_argument("--json", type=Path, required=True, help="write the result here")
    parser.add_argument("--markdown", type=Path, help="write a table here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(options.recorded) as archive:
            archive.extractall(folder, filter="data")
        recordings = read_recordings(Path(folder) / "answers.jsonl")
        step_times(recordings, 1)  # caches are filled
        rows = [row_of(at_once, step_times(recordings, at_once)) for at_once in AT_ONCE]
    facts = environment(shlex.join(["python", "benchmarks/draft_time.py", *sys.argv[1:]]), answers=len(recordings))
    write_json(options.json, {"environment": facts, "rows": rows})
    head = ["answers at once", "steps", "drafting, ms", "learning, ms", "both, ms", "95 % below"]
    body = [[str(value) for value in row.values()] for row in rows]
    lines = ["# Drafting time of `auto`", "", "Medians over the steps of recorded answers, one core, no model.", ""]
    write_markdown(options.markdown, "\n".join([*lines, *table(head, body, left=0), "", *environment_lines(facts)]))


if __name__ == "__main__":
    main()
