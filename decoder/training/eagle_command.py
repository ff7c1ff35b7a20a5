"""`rag train eagle`: arguments of training an EAGLE head."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from decoder.load import DTYPES


def add(commands: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = commands.add_parser("eagle", help="train an EAGLE head on a model's own answers")
    parser.add_argument("--model", required=True, help="a model's name, folder or hub id")
    parser.add_argument("--models-dir", type=Path, help="folder of named models")
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="FILE", help="the model's answers: recordings or .npz"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="head, checkpoints, cached features")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="train for so long, all runs together")
    length.add_argument("--steps", type=int, help="train for so many steps, all runs together (default 1000)")
    parser.add_argument("--levels", type=_numbers, default=(1, 3), metavar="A,B", help="levels by phase (default 1,3)")
    parser.add_argument("--vocab", type=int, default=16384, help="tokens the head can draft; 0 for all (default 16384)")
    parser.add_argument("--batch", type=int, help="answer positions a step (default 4096, on a GPU 16384)")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate at its height (default 0.002)")
    parser.add_argument("--longest", type=int, default=1024, help="most tokens of a sequence (default 1024)")
    parser.add_argument("--cache-gb", type=float, default=8.0, help="most disk space for features (default 8)")
    parser.add_argument("--save-minutes", type=float, default=5.0, help="minutes between checkpoints (default 5)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--about-data", default="", metavar="TEXT", help="where the data is from, and its licences")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--dtype", choices=list(DTYPES), help="of the target (default float32, on a GPU bfloat16)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1")
    parser.add_argument("--threads", type=int, help="processor threads")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> None:
    """Train."""
    from decoder.training.eagle_run import train

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    train(options, say)


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"levels must be at least 1, got {text}")
    return numbers
