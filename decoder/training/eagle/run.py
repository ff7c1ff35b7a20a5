"""`rag train eagle`: an EAGLE head distilled from a target's own answers.

Recipe: the head starts as the best linear guess (`eagle_start.py`); phases of one and then several levels;
cross-entropy against the target's stored probabilities and 0.2 times smooth L1 to its features, on answer positions
alone; many small steps of AdamW; the rate warms up, stays, and falls to nothing over the last third.

Shards of the data are visited in an order that the seed fixes: behind the first eight each new shard is followed by six
that are there already, so a short run sees little data several times and a long one all of it. A run can be stopped at
any time and goes on from its checkpoint as if it had not been.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from decoder.heads.checkpoint import save
from decoder.load import load_target
from decoder.model.fingerprint import describe
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.training.answers import Answer, read_answers, split
from decoder.training.eagle.card import write_card
from decoder.training.eagle.features import FeatureStore, shards_of
from decoder.training.eagle.order import batches, visits
from decoder.training.eagle.progress import Limit, Progress
from decoder.training.eagle.score import Score
from decoder.training.eagle.start import draft_tokens, fit, fresh_head
from decoder.training.eagle.trainer import Trainer

CHECKPOINT = "checkpoint.pt"
CURVE = "learning_curve.jsonl"
SCORED = 32
"""Answers held aside that are scored."""
FITTED = 4
"""Shards that the head's start is solved on."""
_BATCH = {"cpu": 256, "cuda": 4096}
_SAMPLED = {"cpu": 2048, "cuda": 0}
_SAME = ("model", "seed", "vocab")
"""Options that a run must be resumed with."""
_NOTED = ("batch", "levels", "lr", "optimizer", "sampled", "longest", "data")
"""Options that may change from one part of a run to the next, which is then no longer the run it would have been."""


def train(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Train as the command line says; see `eagle_command`."""
    torch.use_deterministic_algorithms(options.device == "cpu")
    cuda = options.device.startswith("cuda")
    target, name = load_target(
        options.model,
        dtype=options.dtype or ("bfloat16" if cuda else "float32"),
        device=options.device,
        models_dir=options.models_dir,
    )
    answers = read_answers(options.data, target.vocab_size, min(options.longest, target.max_positions))
    run(target, name, answers, options, say)


def run(
    target: TargetModel, name: str, answers: Sequence[Answer], options: argparse.Namespace, say: Callable[[str], None]
) -> Score:
    """Train a target's head on answers; returns its score in the end."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    options.batch = options.batch or _BATCH[target.device.type]
    options.sampled = _SAMPLED[target.device.type] if options.sampled is None else options.sampled
    facts = {fact: str(getattr(options, fact)) for fact in (*_SAME, *_NOTED)}
    learned, aside = split(answers)
    kept = _checkpoint(out, options.resume, facts)
    tokens = kept["tokens"] if kept else draft_tokens(learned, target.vocab_size, options.vocab)
    head, gain = fresh_head(target, tokens, learned[0].tokens.tolist(), options.seed)
    trainer = Trainer(
        target,
        head,
        options.levels,
        options.lr,
        gain,
        optimizer=options.optimizer,
        sampled=options.sampled,
        seed=options.seed,
    )
    if kept:
        trainer.restore(kept)
        for fact in [fact for fact in _NOTED if kept["facts"].get(fact) != facts[fact]]:
            say(f"--{fact} was {kept['facts'].get(fact)} and is {facts[fact]} from here on")
        say(f"going on at step {trainer.step}, {trainer.positions} positions, {trainer.seconds / 60:.1f} minutes")
    store = FeatureStore(target, out / "features", 1e9 * options.cache_gb)
    say(
        f"{len(learned)} answers to learn from, {len(aside)} held aside; the head has "
        f"{sum(weight.numel() for weight in trainer.head.parameters()) / 1e6:.1f} million weights and drafts among "
        f"{len(trainer.matrix)} tokens"
    )
    scored = [example for shard in shards_of(aside[:SCORED], 0) for example in store.examples(shard)]
    say(f"features of the scored answers: {store.computed} tokens in {store.seconds:.0f} s")
    shards = shards_of(learned, options.seed)
    if not kept:
        fit(head, (example for shard in shards[:FITTED] for example in store.examples(shard)), trainer.embeddings)
    progress_line = Progress(trainer, store, say)

    def keep() -> Score:
        made = trainer.score(scored)
        _append(out / CURVE, trainer, progress_line, made)
        temporary = out / f".{CHECKPOINT}"
        torch.save({**trainer.state(), "facts": facts}, temporary)
        temporary.replace(out / CHECKPOINT)
        save(trainer.finished(), out, target=describe(target, name))  # usable at once
        write_card(out, options, name, trainer, made, len(learned), len(aside))
        depths = " ".join(f".{round(100 * share):02d}" for share in made.acceptance)
        say(f"saved; held aside: chain MAT {made.mat:.2f}, acceptance by depth {depths}")
        return made

    limit = Limit(options.minutes, options.steps)
    started, before = time.perf_counter(), trainer.seconds
    last_saved = started
    for number, shard in enumerate(visits(len(shards), options.seed)):
        if limit.reached(trainer):
            break
        if number < trainer.visit:
            continue
        parts = batches(store.examples(shards[shard]), options.batch, 1_000_003 * options.seed + number)
        for examples in parts[trainer.batch :]:
            trainer.seconds = before + time.perf_counter() - started
            if limit.reached(trainer):
                break
            loss, right = trainer.learn(trainer.batch_of(examples), limit.progress(trainer))
            trainer.batch += 1
            progress_line.tell(loss, right, limit)
            if time.perf_counter() - last_saved > 60 * options.save_minutes:
                trainer.seconds = before + time.perf_counter() - started
                keep()
                last_saved = time.perf_counter()
        else:
            trainer.visit, trainer.batch = number + 1, 0
    trainer.seconds = before + time.perf_counter() - started
    best = keep()
    say(f"head written to {out}")
    return best


def _checkpoint(out: Path, resume: bool, facts: dict[str, str]) -> dict[str, Any] | None:
    path = out / CHECKPOINT
    if not resume:
        if path.exists():
            raise BenchError(f"{path} is there already; go on from it with --resume, or name another --out")
        return None
    if not path.is_file():
        return None
    kept: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    changed = [name for name in _SAME if kept["facts"].get(name) != facts[name]]
    if changed:
        was = ", ".join(f"{name} {kept['facts'].get(name)}" for name in changed)
        raise BenchError(f"{path} is of a run with {was}; resume with the same, or name another --out")
    return kept


def _append(path: Path, trainer: Trainer, progress: Progress, made: Score) -> None:
    line = {
        "step": trainer.step,
        "seconds": round(trainer.seconds, 1),
        "positions": trainer.positions,
        "loss": round(progress.loss, 4),
        "right": [round(share, 4) for share in progress.right],
        "held_aside": asdict(made),
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
