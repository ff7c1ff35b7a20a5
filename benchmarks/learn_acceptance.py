"""Learn the acceptance table that `auto` ships with, by replaying recorded answers.

    python benchmarks/learn_acceptance.py answers.jsonl --edits 400 --model smollm2-135m --shown 400 \
        --out small.json
    python benchmarks/learn_acceptance.py answers_of_a_larger_model.jsonl --onto small.json --edits 0 --rounds 2 \
        --out decoder/drafters/learning/tables/acceptance.json

The answers are recordings (`rag bench record`) of training prompts, and must not include benchmark prompts. Recorded
answers of a small model seldom edit, so `--edits` adds answers that repeat a part of a prompt with random tokens
inserted, replaced and deleted. `--model` runs the answers' model over `--shown` of them, to learn from its logits and
hidden states. `--onto` continues from a table, whose averages then have a low weight: many answers of a small model
teach what each feature is worth, a few answers of a larger model how much more reliably it copies.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from decoder import load_engine
from decoder.bench.simulated.replay import replay
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.acceptance import AcceptanceTable
from decoder.drafters.learning.eos_prior import EosPrior
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from decoder.recording.pass_archive import BEST, PassArchive
from decoder.recording.record import Recording, read_recordings

ANSWER_TOKENS = 256
ONTO_WEIGHT = 100.0
"""Most observations that an average of the `--onto` table counts for."""
RUNS = (5, 400)
"""Range of tokens between edits, drawn log-uniformly: some texts are rewritten, in others a word changes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recorded", type=Path, nargs="+")
    parser.add_argument("--edits", type=int, default=400, help="edited copies to add (default 400)")
    parser.add_argument("--model", help="the model of the answers")
    parser.add_argument("--shown", type=int, default=400, help="answers to run the model over (default 400)")
    parser.add_argument("--onto", type=Path, help="a table to continue from (default: an empty one)")
    parser.add_argument("--rounds", type=int, default=1, help="replays of every answer (default 1)")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    recordings = [recording for path in options.recorded for recording in read_recordings(path)]
    with tempfile.TemporaryDirectory() as folder:
        if options.model is not None:
            target = load_engine(options.model, drafter="plain").target
            recordings = list(shown(recordings, options.shown, target, Path(folder)))
        table = AcceptanceTable.load(options.onto).faded(ONTO_WEIGHT) if options.onto else AcceptanceTable()
        learn(table, recordings, options.edits, options.rounds)
        table.save(options.out)


def shown(recordings: list[Recording], count: int, target: TargetModel, folder: Path) -> Iterator[Recording]:
    """All recordings; `count` of them, evenly spread, with their model's logits and hidden states."""
    every = max(len(recordings) // max(count, 1), 1)
    for number, recording in enumerate(recordings):
        if number % every or len(recording.output_ids) < 2:
            yield recording
            continue
        path = folder / f"{number}.npz"
        outputs(recording, target).save(path)
        yield replace(recording, archive=path)


def outputs(recording: Recording, target: TargetModel) -> PassArchive:
    """The outputs of a pass over a recorded answer, its tokens drafted as one chain after its prompt."""
    prompt, answer = recording.prompt_ids, recording.output_ids
    layer = target.layers // 3
    required_outputs = RequiredOutputs(hidden=frozenset({layer}))
    cache = target.new_cache(len(prompt) + len(answer))
    before = target.prefill(prompt[:-1], cache, required_outputs).hidden[layer] if len(prompt) > 1 else None
    chain = DraftTree.chain(answer[:-1], [TokenSource("recorded")] * (len(answer) - 1))
    passed = target.forward_tree([TreePass(cache, prompt[-1], chain, required_outputs)])[0]
    best = passed.logits.float().topk(BEST)
    states = passed.hidden[layer] if before is None else torch.cat([before, passed.hidden[layer]])
    return PassArchive(
        best.indices.int().numpy(), best.values.numpy(), target.vocab_size, {layer: states.half().numpy()}
    )


def learn(table: AcceptanceTable, recordings: list[Recording], edits: int, rounds: int) -> None:
    """Learn from recorded answers and from `edits` edited copies of their prompts, in random order."""
    source = random.Random(0)
    long_prompts = [recording for recording in recordings if len(recording.prompt_ids) >= 96]
    answers = [recording for recording in recordings if len(recording.output_ids) > 1]
    answers += [edited(source.choice(long_prompts), source) for _ in range(edits)]
    context = DrafterContext()
    tokens = steps = number = 0
    for _ in range(rounds):
        source.shuffle(answers)
        for recording in answers:
            context.acceptance.set(recording.benchmark, table)  # one table for all benchmarks
            stats, _ = replay(recording, AutoDrafter(survey=1), context=context)
            tokens += stats.tokens - 1
            steps += stats.steps
            number += 1
            if number % 200 == 0:
                print(f"{number} of {rounds * len(answers)} answers, MAT {tokens / steps:.2f}", flush=True)
    table.eos_prior = EosPrior()  # its token ids are one model's; they mean nothing to another


def edited(recording: Recording, source: random.Random) -> Recording:
    """An answer that repeats a stretch of the prompt with edits."""
    prompt = recording.prompt_ids
    start = source.randrange(len(prompt) // 2)
    pending = prompt[start : start + ANSWER_TOKENS]
    answer: list[int] = []
    while pending:
        run = round(math.exp(source.uniform(*map(math.log, RUNS))))
        answer += pending[:run]
        pending = pending[run:]
        replaced, inserted = source.choice(((1, 1), (1, 1), (0, 1), (1, 0), (2, 1), (1, 2), (3, 3)))
        answer += source.choices(prompt, k=inserted)
        pending = pending[replaced:]
    return replace(recording, id=f"{recording.id}-edit-{start}", output_ids=answer[:ANSWER_TOKENS], archive=None)


if __name__ == "__main__":
    main()
