"""The time that `auto` drafts, is cut to its budget and learns in a step, by both of its cores, over recorded answers,
without a model and on one core.

    python benchmarks/draft_time.py --json OUT.json --markdown OUT.md

Answers are replayed one at a time, and eight at a time step by step, as an engine would decode them; a step of eight is
the sum of its answers' times. Not in it: the pass, the choice of tokens, and reading the recording. Times are those of
the processor in the thread, so that other programs on the machine count little.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.bench.simulated import replay
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.context import DrafterContext
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.environment import environment
from decoder.recording.record import Recording, read_recordings

RECORDED = Path(__file__).resolve().parents[1] / "tests" / "decoder" / "recorded" / "answers.tar.xz"
AT_ONCE = (1, 8)
CORES = {"readable": False, "compiled": True}
PARTS = ("draft", "budget", "observe")


class Clock:
    """Milliseconds of a step so far, by part, summed over the answers of the step."""

    def __init__(self) -> None:
        self.ms = dict.fromkeys(PARTS, 0.0)

    def watch(self, owner: Any, method: str, part: str) -> None:
        setattr(owner, method, self._timed(part, getattr(owner, method)))

    def take(self) -> tuple[float, ...]:
        taken = tuple(self.ms.values())
        self.ms = dict.fromkeys(PARTS, 0.0)
        return taken

    def _timed(self, part: str, method: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            if part == "observe" and arguments[-1].has_logits:
                _ = arguments[-1].logits  # a pass has them; a recording builds them when they are first read
            started = time.thread_time()
            try:
                return method(*arguments)
            finally:
                self.ms[part] += 1e3 * (time.thread_time() - started)

        return timed


def step_times(recordings: Sequence[Recording], at_once: int, compiled: bool) -> list[tuple[float, ...]]:
    """Milliseconds of each of PARTS in every step in which `at_once` answers took part."""
    context, clock = DrafterContext(cost=AssumedCurve(1.0, 1.5)), Clock()
    waiting, running, times = list(recordings), list[Iterator[object]](), list[tuple[float, ...]]()
    with patch.object(replay, "choose", clock._timed("budget", replay.choose)):
        while waiting or running:
            while waiting and len(running) < at_once:
                drafter = AutoDrafter(compiled=compiled)
                clock.watch(drafter, "draft", "draft")
                clock.watch(drafter, "observe", "observe")
                running.append(replay.replayed_steps(waiting.pop(0), drafter, context=context))
                next(running[-1])
            clock.take()  # what came at prefill
            finished = [steps for steps in running if next(steps, None) is None]
            if not finished and len(running) == at_once:
                times.append(clock.take())
            running = [steps for steps in running if steps not in finished]
    return times


def row_of(core: str, at_once: int, times: Sequence[tuple[float, ...]]) -> dict[str, Any]:
    totals = sorted(sum(one) for one in times)
    medians = {
        f"{part}_ms": round(median(values), 3) for part, values in zip(PARTS, zip(*times, strict=True), strict=True)
    }
    return {
        "core": core,
        "answers_at_once": at_once,
        "steps": len(times),
        **medians,
        "step_ms": round(median(totals), 3),
        "step_p95_ms": round(totals[int(0.95 * (len(totals) - 1))], 3),
    }


def start_times() -> dict[str, float]:
    """Seconds to load the compiled core in a new process, its machine code compiled anew and kept on disk."""
    code = (
        "import time; from decoder.drafters.auto import drafter, core_choice; import torch, transformers\n"
        "started = time.process_time(); assert core_choice.compiled_core(); print(time.process_time() - started)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {"NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", code]
        root = Path(__file__).resolve().parents[1]
        runs = [subprocess.run(command, env=environ, cwd=root, capture_output=True, check=True) for _ in range(2)]
    return {name: round(float(run.stdout), 1) for name, run in zip(("compiled_s", "loaded_s"), runs, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recorded", type=Path, default=RECORDED, help="an archive with answers.jsonl")
    parser.add_argument("--json", type=Path, required=True, help="write the result here")
    parser.add_argument("--markdown", type=Path, help="write a table here")
    parser.add_argument("--machine", default="idle", help="what else the machine does, for the report")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(options.recorded) as archive:
            archive.extractall(folder, filter="data")
        recordings = read_recordings(Path(folder) / "answers.jsonl")
        rows = []
        for core, compiled in CORES.items():
            step_times(recordings, 1, compiled)  # caches are filled
            rows += [row_of(core, at_once, step_times(recordings, at_once, compiled)) for at_once in AT_ONCE]
    start = start_times()
    facts = environment(
        shlex.join(["python", "benchmarks/draft_time.py", *sys.argv[1:]]),
        answers=len(recordings),
        numba=version("numba"),
        machine=options.machine,
    )
    write_json(options.json, {"environment": facts, "rows": rows, "start": start})
    head = ["core", "answers at once", "steps", "drafting, ms", "budget, ms", "learning, ms", "all, ms", "95 % below"]
    body = [[str(value) for value in row.values()] for row in rows]
    lines = ["# Drafting time of `auto`", "", "Medians over the steps of recorded answers, one core, no model.", ""]
    lines += [*table(head, body, left=1), ""]
    lines += [
        f"A process loads the compiled core in {start['loaded_s']} s of processor time, numba included; the first one "
        f"on a machine compiles it in {start['compiled_s']} s.",
        "",
    ]
    write_markdown(options.markdown, "\n".join([*lines, *environment_lines(facts)]))


if __name__ == "__main__":
    main()
