"""Arguments that the training commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from decoder.load import DTYPES, load_target
from decoder.model.target import TargetModel
from decoder.recording.arguments import add_machine, add_model


def add_run(parser: argparse.ArgumentParser, out: str, lr: float) -> None:
    """Add the arguments of a training run.

    Args:
        out: help text of `--out`.
        lr: default learning rate.
    """
    add_model(parser)
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="FILE", help="the model's answers: recordings or .npz"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help=out)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="minutes to train, resumed runs included")
    length.add_argument("--steps", type=int, help="steps to train, resumed runs included (default 1000)")
    parser.add_argument("--vocab", type=int, default=16384, help="tokens to draft among; 0 for all (default 16384)")
    parser.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw", help="default adamw")
    parser.add_argument("--lr", type=float, default=lr, help=f"peak learning rate (default {lr:g})")
    parser.add_argument("--longest", type=int, default=1024, help="most tokens of a sequence (default 1024)")
    parser.add_argument("--save-minutes", type=float, default=5.0, help="minutes between checkpoints (default 5)")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --out")
    parser.add_argument("--about-data", default="", metavar="TEXT", help="source and licences of the data")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--dtype", choices=list(DTYPES), help="of the target (default float32, on a GPU bfloat16)")
    add_machine(parser)


def load_target_of(options: argparse.Namespace) -> tuple[TargetModel, str]:
    """The target of a training run, and its name."""
    dtype = options.dtype or ("bfloat16" if options.device.startswith("cuda") else "float32")
    return load_target(options.model, dtype=dtype, device=options.device, models_dir=options.models_dir)
