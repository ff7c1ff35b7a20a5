"""Learn the acceptance table that `auto` ships with, by replaying recorded answers.

    python benchmarks/learn_acceptance.py answers.jsonl --edits 400 --out decoder/tables/acceptance.json

The answers are recordings (`rag bench record`) of training prompts; no benchmark prompt may be among them. Recorded
answers of a small model seldom edit, so `--edits` adds answers that repeat a part of a prompt with random tokens put
in, replaced and left out.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from pathlib import Path

from decoder.acceptance import AcceptanceTable
from decoder.bench.record import Recording, read_recordings
from decoder.bench.replay import replay
from decoder.drafters.auto import AutoDrafter
from decoder.drafters.equipment import Equipment

ANSWER_TOKENS = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recorded", type=Path, nargs="+")
    parser.add_argument("--edits", type=int, default=400, help="edited copies to add (default 400)")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    recordings = [recording for path in options.recorded for recording in read_recordings(path)]
    learn(recordings, options.edits).save(options.out)


def learn(recordings: list[Recording], edits: int) -> AcceptanceTable:
    """A table learned from recorded answers and from `edits` edited copies of their prompts, in random order."""
    source = random.Random(0)
    long_prompts = [recording for recording in recordings if len(recording.prompt_ids) >= 96]
    everything = recordings + [edited(source.choice(long_prompts), source) for _ in range(edits)]
    source.shuffle(everything)
    equipment = Equipment()
    table = AcceptanceTable()
    tokens = steps = 0
    for number, recording in enumerate(everything, 1):
        equipment.acceptance.set(recording.benchmark, table)  # one table, whatever the recordings are of
        stats, _ = replay(recording, AutoDrafter(), equipment=equipment)
        tokens += stats.tokens - 1
        steps += stats.steps
        if number % 200 == 0:
            print(f"{number} of {len(everything)} answers, MAT {tokens / steps:.2f}", flush=True)
    return table


def edited(recording: Recording, source: random.Random) -> Recording:
    """An answer that repeats a stretch of the prompt with an edit every 8 to 60 tokens."""
    prompt = recording.prompt_ids
    start = source.randrange(len(prompt) // 2)
    pending = prompt[start : start + ANSWER_TOKENS]
    answer: list[int] = []
    while pending:
        run = source.randint(8, 60)
        answer += pending[:run]
        pending = pending[run:]
        replaced, put_in = source.choice(((1, 1), (1, 1), (0, 1), (1, 0), (2, 1), (1, 2), (3, 3)))
        answer += source.choices(prompt, k=put_in)
        pending = pending[replaced:]
    return replace(recording, id=f"{recording.id}-edit-{start}", output_ids=answer[:ANSWER_TOKENS])


if __name__ == "__main__":
    main()
