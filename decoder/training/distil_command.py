"""`rag train distil`: saves a target's own greedy answers to prompts, to train on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decoder.recording.arguments import add_dtype, add_machine, add_model, run_record


def add(commands: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = commands.add_parser("distil", help="save a model's greedy answers, to train on")
    add_model(parser)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE", help="JSONL files of prompts")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="recordings to append to")
    parser.add_argument("--limit", type=int, help="prompts per category, spread evenly over it (default: all)")
    parser.add_argument("--max-tokens", type=int, default=256, help="most tokens of an answer (default 256)")
    parser.add_argument("--batch", type=int, default=32, help="answers decoded together (default 32)")
    parser.add_argument("--drafter", default="plain", help="drafter that speeds it up (default plain)")
    add_dtype(parser)
    add_machine(parser)
    parser.set_defaults(work=run_record, categories="", max_chars=None, keep_logits=False, keep_hidden=())
