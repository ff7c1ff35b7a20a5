"""`rag train eagle`: distils an EAGLE head from a target's own answers.

Recipe: the head starts as the best linear guess (`initial_head.py`); phases of one level and then several;
cross-entropy against the target's stored probabilities and 0.2 times smooth L1 to its features, on answer positions
only; many small steps of AdamW; the learning rate warms up, stays, and falls over the last third.

Shards of the data are visited in an order that the seed fixes (`order.py`), so a short run sees little data several
times and a long run sees all of it. A run can be stopped at any time and continues from its checkpoint as if it had not
been stopped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from decoder.heads.checkpoint import save
from decoder.model.fingerprint import describe
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.training.answers import Answer, frequent_tokens, read_answers, split
from decoder.training.arguments import load_target_of
from decoder.training.checkpoint import CHECKPOINT, append_to_curve, load_checkpoint, save_checkpoint
from decoder.training.eagle.card import write_card
from decoder.training.eagle.features import FeatureStore, shards_of
from decoder.training.eagle.initial_head import fit, fresh_head
from decoder.training.eagle.order import batches, visits
from decoder.training.eagle.progress import Limit, Progress
from decoder.training.eagle.score import Score
from decoder.training.eagle.trainer import Trainer

SCORED = 32
"""Held-out answers that are scored."""
FITTED = 4
"""Shards that the initial head is solved on."""
_BATCH = {"cpu": 256, "cuda": 4096}
_SAMPLED = {"cpu": 2048, "cuda": 0}
_SAME = ("model", "seed", "vocab")
"""Options that a run must be resumed with."""
_NOTED = ("batch", "levels", "lr", "optimizer", "sampled", "longest", "data")
"""Options that may change when a run is resumed; the result then differs from an uninterrupted run's."""


def train(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Train as the command line says; see `command.py`."""
    torch.use_deterministic_algorithms(options.device == "cpu")
    target, name = load_target_of(options)
    answers = read_answers(options.data, target.vocab_size, min(options.longest, target.max_positions))
    run(target, name, answers, options, say)


def run(
    target: TargetModel, name: str, answers: Sequence[Answer], options: argparse.Namespace, say: Callable[[str], None]
) -> Score:
    """Train a target's head on answers; returns its final score."""
    out: Path = options.out
    options.batch = options.batch or _BATCH[target.device.type]
    options.sampled = _SAMPLED[target.device.type] if options.sampled is None else options.sampled
    facts = {fact: str(getattr(options, fact)) for fact in (*_SAME, *_NOTED)}
    train_set, held_out = split(answers)
    checkpoint = _checkpoint(out, options.resume, facts)
    tokens = checkpoint["tokens"] if checkpoint else frequent_tokens(train_set, target.vocab_size, options.vocab)
    head, gain = fresh_head(target, tokens, train_set[0].tokens.tolist(), options.seed)
    names = ("optimizer", "sampled", "seed")
    trainer = Trainer(
        target, head, options.levels, options.lr, gain, **{option: getattr(options, option) for option in names}
    )
    if checkpoint:
        trainer.restore(checkpoint)
        for fact in [fact for fact in _NOTED if checkpoint["facts"].get(fact) != facts[fact]]:
            say(f"--{fact} was {checkpoint['facts'].get(fact)} and is {facts[fact]} from here on")
        say(f"going on at step {trainer.step}, {trainer.positions} positions, {trainer.seconds / 60:.1f} minutes")
    store = FeatureStore(target, out / "features", 1e9 * options.cache_gb)
    say(
        f"{len(train_set)} answers to learn from, {len(held_out)} held out; the head has "
        f"{sum(weight.numel() for weight in trainer.head.parameters()) / 1e6:.1f} million weights and drafts among "
        f"{len(trainer.matrix)} tokens"
    )
    scored = [example for shard in shards_of(held_out[:SCORED], 0) for example in store.examples(shard)]
    say(f"features of the scored answers: {store.computed} tokens in {store.seconds:.0f} s")
    shards = shards_of(train_set, options.seed)
    if not checkpoint:
        fit(head, (example for shard in shards[:FITTED] for example in store.examples(shard)), trainer.embeddings)
    limit = Limit(options.minutes, options.steps)
    progress = Progress(trainer, store, limit, say)

    def save_all() -> Score:
        score = trainer.score(scored)
        _append(out, trainer, progress, score)
        save_checkpoint(out, {**trainer.state(), "facts": facts})
        save(trainer.finished(), out, target=describe(target, name))  # usable at once
        write_card(out, options, name, trainer, score, len(train_set), len(held_out))
        depths = " ".join(f".{round(100 * share):02d}" for share in score.acceptance)
        say(f"saved; held out: chain MAT {score.mat:.2f}, acceptance by depth {depths}")
        return score

    started, earlier = time.perf_counter(), trainer.seconds
    last_saved = started
    for number, shard in enumerate(visits(len(shards), options.seed)):
        if limit.reached(trainer):
            break
        if number < trainer.visit:
            continue
        parts = batches(store.examples(shards[shard]), options.batch, 1_000_003 * options.seed + number)
        for examples in parts[trainer.batch :]:
            trainer.seconds = earlier + time.perf_counter() - started
            if limit.reached(trainer):
                break
            loss, right = trainer.learn(examples, limit.progress(trainer))
            trainer.batch += 1
            progress.add(loss, right)
            if time.perf_counter() - last_saved > 60 * options.save_minutes:
                trainer.seconds = earlier + time.perf_counter() - started
                save_all()
                last_saved = time.perf_counter()
        else:
            trainer.visit, trainer.batch = number + 1, 0
    trainer.seconds = earlier + time.perf_counter() - started
    final = save_all()
    say(f"head written to {out}")
    return final


def _checkpoint(out: Path, resume: bool, facts: dict[str, str]) -> dict[str, Any] | None:
    checkpoint = load_checkpoint(out)
    if checkpoint is None:
        return None
    if not resume:
        raise BenchError(f"{out / CHECKPOINT} is there already; go on from it with --resume, or name another --out")
    changed = [name for name in _SAME if checkpoint["facts"].get(name) != facts[name]]
    if changed:
        values = ", ".join(f"{name} {checkpoint['facts'].get(name)}" for name in changed)
        raise BenchError(f"{out / CHECKPOINT} is of a run with {values}; resume with the same, or name another --out")
    return checkpoint


def _append(out: Path, trainer: Trainer, progress: Progress, score: Score) -> None:
    line = {
        "step": trainer.step,
        "seconds": round(trainer.seconds, 1),
        "positions": trainer.positions,
        "loss": round(progress.loss, 4),
        "right": [round(share, 4) for share in progress.right],
        "held_aside": asdict(score),
    }
    append_to_curve(out, line)
