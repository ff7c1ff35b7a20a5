"""`rag train sdsat`: arguments of training SDSAT adapters."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from decoder.model.adapters import LINEARS
from decoder.training.arguments import add_run, say


def add(commands: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = commands.add_parser("sdsat", help="train SDSAT adapters on a model's own answers")
    add_run(parser, "adapters, card, checkpoint", lr=2e-3)
    parser.add_argument("--k", type=int, default=4, help="masks of a chain (default 4)")
    parser.add_argument("--rank", type=int, default=16, help="of the low-rank adapters (default 16)")
    parser.add_argument("--linears", default=",".join(LINEARS), help="linear layers that get them (default all)")
    parser.add_argument(
        "--coupler", type=int, default=256, help="hidden units of the coupler, 0 for none (default 256)"
    )
    parser.add_argument("--batch", type=int, help="answers a step (default 4, on a GPU 32)")
    parser.add_argument("--points", type=int, default=96, help="accept points of an answer (default 96)")
    parser.add_argument(
        "--start", type=int, default=2_000_000, help="points the coupler learns from before masks run (default 2000000)"
    )
    parser.add_argument("--shards", type=int, default=8, help="16k tokens each, of answers for that (default 8)")
    parser.add_argument(
        "--features", type=Path, help="folder of cached features, also of `eagle` (default OUT/features)"
    )
    parser.add_argument("--cache-gb", type=float, default=8.0, help="most disk space for features (default 8)")
    parser.add_argument("--aside", type=int, default=40, help="held-aside answers that are evaluated (default 40)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> None:
    """Train, and write adapters, card and plot into the folder."""
    from decoder.drafters.sdsat import adapter_files
    from decoder.load import load_target
    from decoder.model.fingerprint import describe
    from decoder.recording.prompts import BenchError
    from decoder.training.answers import read_answers
    from decoder.training.eagle.features import FeatureStore
    from decoder.training.sdsat.report import CARD, PLOT, card, draw, read_curve
    from decoder.training.sdsat.run import CHECKPOINT, CURVE, Plan, Trainer

    gpu = options.device.startswith("cuda")
    plan = Plan(
        masks=options.k,
        rank=options.rank,
        linears=tuple(options.linears.split(",")),
        coupler=options.coupler,
        tokens=options.vocab,
        batch=options.batch or (32 if gpu else 4),
        points=options.points,
        lr=options.lr,
        optimizer=options.optimizer,
        seed=options.seed,
        start=options.start if options.coupler else 0,
        shards=options.shards,
        steps=None if options.minutes is not None else options.steps or 1000,
        minutes=options.minutes,
        aside=options.aside,
        save_minutes=options.save_minutes,
    )
    if not options.resume and (options.out / CHECKPOINT).exists():
        raise BenchError(f"{options.out} holds a run; go on with --resume or choose another folder")

    dtype = options.dtype or ("bfloat16" if gpu else "float32")
    target, name = load_target(options.model, dtype=dtype, device=options.device, models_dir=options.models_dir)
    longest = min(options.longest, target.max_positions - plan.masks)
    trainer = Trainer(target, read_answers(options.data, target.vocab_size, longest), plan, options.out)
    if options.resume:
        trainer.resume()
    elif plan.start:
        store = FeatureStore(target, options.features or options.out / "features", 1e9 * options.cache_gb)
        say(f"features of {plan.shards} shards are read, or computed where they are not there yet")
        trainer.start(store, say)
        trainer.save()
    weights = sum(weight.numel() for weight in trainer.adapters.weights().values())
    say(f"{len(trainer.answers)} answers, {len(trainer.aside)} held aside; {weights:,} weights to train")
    try:
        trainer.train(say)
    finally:
        if trainer.step and (options.out / CURVE).is_file():  # what there is, also of a run that was stopped
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
