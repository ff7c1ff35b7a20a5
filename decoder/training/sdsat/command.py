"""`rag train sdsat`: arguments of training SDSAT adapters, and the run itself."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from decoder.model.adapters import LINEARS
from decoder.recording.arguments import say
from decoder.training.arguments import add_run, load_target_of


def add(commands: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = commands.add_parser("sdsat", help="train SDSAT adapters on a model's own answers")
    add_run(parser, "folder for adapters, card and checkpoint", lr=2e-3)
    parser.add_argument("--k", type=int, default=4, help="masks per chain (default 4)")
    parser.add_argument("--rank", type=int, default=16, help="rank of the low-rank adapters (default 16)")
    parser.add_argument("--linears", default=",".join(LINEARS), help="linear layers to adapt (default all)")
    parser.add_argument(
        "--coupler",
        type=int,
        default=256,
        help="hidden units of the conditioner of drafts on the token before; 0 for none (default 256)",
    )
    parser.add_argument("--batch", type=int, help="answers per step (default 4, on a GPU 32)")
    parser.add_argument("--points", type=int, default=96, help="accept points per answer (default 96)")
    parser.add_argument(
        "--start", type=int, default=2_000_000, help="points of the conditioner's pretraining (default 2000000)"
    )
    parser.add_argument("--shards", type=int, default=8, help="shards of 16k tokens for the pretraining (default 8)")
    parser.add_argument(
        "--features", type=Path, help="folder of cached features, shared with `eagle` (default OUT/features)"
    )
    parser.add_argument("--cache-gb", type=float, default=8.0, help="most disk space for features (default 8)")
    parser.add_argument("--aside", type=int, default=40, help="held-out answers to evaluate (default 40)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> None:
    """Train, and write adapters, card and plot into the folder."""
    from decoder.drafters.sdsat import adapter_files
    from decoder.model.fingerprint import describe
    from decoder.recording.prompts import BenchError
    from decoder.training.answers import read_answers
    from decoder.training.checkpoint import CHECKPOINT, CURVE, read_curve
    from decoder.training.eagle.features import FeatureStore
    from decoder.training.sdsat.report import CARD, PLOT, card, draw
    from decoder.training.sdsat.run import Plan, Trainer

    names = ("rank", "coupler", "points", "lr", "optimizer", "seed", "shards", "minutes", "save_minutes")
    plan = Plan(
        masks=options.k,
        linears=tuple(options.linears.split(",")),
        tokens=options.vocab,
        batch=options.batch or (32 if options.device.startswith("cuda") else 4),
        start=options.start if options.coupler else 0,
        steps=None if options.minutes is not None else options.steps or 1000,
        held_out=options.aside,
        **{name: getattr(options, name) for name in names},
    )
    if not options.resume and (options.out / CHECKPOINT).exists():
        raise BenchError(f"{options.out} holds a run; go on with --resume or choose another folder")

    target, name = load_target_of(options)
    longest = min(options.longest, target.max_positions - plan.masks)
    trainer = Trainer(target, read_answers(options.data, target.vocab_size, longest), plan, options.out)
    if options.resume:
        trainer.resume()
    elif plan.start:
        store = FeatureStore(target, options.features or options.out / "features", 1e9 * options.cache_gb)
        say(f"reading the features of {plan.shards} shards; those not cached yet are computed")
        trainer.pretrain(store, say)
        trainer.save()
    weights = sum(weight.numel() for weight in trainer.adapters.weights().values())
    say(f"{len(trainer.answers)} answers, {len(trainer.held_out)} held out; {weights:,} weights to train")
    try:
        trainer.train(say)
    finally:
        if trainer.step and (options.out / CURVE).is_file():  # also of a stopped run
            facts = describe(target, name)
            adapter_files.save(
                trainer.adapters, options.out, facts, start=plan.start, steps=trainer.step, seed=plan.seed
            )
            config = json.loads((options.out / adapter_files.CONFIG).read_text(encoding="utf-8"))
            curve = read_curve(options.out / CURVE)
            text = card(config, curve[-1], options.line, options.about_data)
            (options.out / CARD).write_text(text, encoding="utf-8")
            drawn = draw(curve, options.out / PLOT)
            say(f"adapters are in {options.out}" + ("" if drawn else "; install matplotlib for the plot"))
