"""Arguments that the commands of `rag train` share."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from decoder.load import DTYPES


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model whose answers are learned."""
    parser.add_argument("--model", required=True, help="a model's name, folder or hub id")
    parser.add_argument("--models-dir", type=Path, help="folder of named models")


def add_run(parser: argparse.ArgumentParser, out: str, lr: float) -> None:
    """A training run: its model and answers, how it learns, how long it takes, what it goes on from.

    Args:
        out: says what it writes.
        lr: learning rate, where none is given.
    """
    add_model(parser)
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="FILE", help="the model's answers: recordings or .npz"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help=out)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="train for so long, all runs together")
    length.add_argument("--steps", type=int, help="train for so many steps, all runs together (default 1000)")
    parser.add_argument(
        "--vocab", type=int, default=16384, help="tokens that can be drafted; 0 for all (default 16384)"
    )
    parser.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw", help="default adamw")
    parser.add_argument("--lr", type=float, default=lr, help=f"learning rate at its height (default {lr:g})")
    parser.add_argument("--longest", type=int, default=1024, help="most tokens of a sequence (default 1024)")
    parser.add_argument("--save-minutes", type=float, default=5.0, help="minutes between checkpoints (default 5)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--about-data", default="", metavar="TEXT", help="where the data is from, and its licences")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--dtype", choices=list(DTYPES), help="of the target (default float32, on a GPU bfloat16)")
    add_machine(parser)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """What the model runs on."""
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1")
    parser.add_argument("--threads", type=int, help="processor threads")


def say(line: str) -> None:
    """Progress goes beside the output."""
    print(line, file=sys.stderr, flush=True)
