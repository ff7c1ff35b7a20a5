"""`rag train distil`: a target's own greedy answers to prompts, written down to train on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decoder.load import DTYPES
from decoder.training.arguments import add_machine, add_model, say


def add(commands: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "distil", help="write down a model's own greedy answers, to train on"
    )
    add_model(parser)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE", help="JSONL files of prompts")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="recordings to append to")
    parser.add_argument("--limit", type=int, help="prompts per category, spread evenly over it (default all)")
    parser.add_argument("--max-tokens", type=int, default=256, help="most tokens an answer has (default 256)")
    parser.add_argument("--batch", type=int, default=32, help="answers decoded together (default 32)")
    parser.add_argument("--drafter", default="plain", help="drafter that speeds it up (default plain)")
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES), help="default float32")
    add_machine(parser)
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> None:
    """Record; a run that is started again adds what is missing."""
    from decoder.recording.opened import open_model
    from decoder.recording.prompts import load_items
    from decoder.recording.record import record
    from decoder.recording.specs import make_from_spec

    make_from_spec(options.drafter)  # a wrong spec fails before the model is loaded
    items = load_items(options.data, limit=options.limit)
    opened = open_model(options.model, dtype=options.dtype, device=options.device, models_dir=options.models_dir)

    added = record(
        opened.engine,
        opened.chat,
        items,
        options.out,
        model=opened.name,
        dtype=options.dtype,
        max_tokens=options.max_tokens,
        drafter=options.drafter,
        batch=options.batch,
        say=say,
    )
    say(f"{added} answers added to {options.out}")
