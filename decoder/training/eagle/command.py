"""`rag train eagle`: arguments of training an EAGLE head."""

from __future__ import annotations

import argparse
from typing import Any

from decoder.recording.arguments import say
from decoder.training.arguments import add_run


def add(commands: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = commands.add_parser("eagle", help="train an EAGLE head on a model's own answers")
    add_run(parser, "folder for head, checkpoints and cached features", lr=1e-4)
    parser.add_argument("--levels", type=_numbers, default=(1, 3), metavar="A,B", help="levels per phase (default 1,3)")
    parser.add_argument("--batch", type=int, help="answer positions per step (default 256, on a GPU 4096)")
    parser.add_argument(
        "--sampled",
        type=int,
        help="unlikely tokens that a step's loss samples; 0 for all (default 2048, on a GPU 0)",
    )
    parser.add_argument("--cache-gb", type=float, default=8.0, help="most disk space for features (default 8)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> None:
    """Train."""
    from decoder.training.eagle.run import train

    train(options, say)


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"levels must be at least 1, got {text}")
    return numbers
