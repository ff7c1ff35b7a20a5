"""Command-line arguments that benchmarks and training share, and the frame that runs their commands."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from decoder.errors import DecoderError
from decoder.load import NUMBER_FORMATS
from decoder.recording.prompts import BenchError, Item, load_items


def run_command(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    program: str,
    if_interrupted: str,
    models_dir: Path | None = None,
) -> int:
    """Parse arguments and call their default `work` with them. Print an error on one line.

    Args:
        argv: arguments from the subcommand on. Default: those of the process.
        program: program name in the recorded command line, `options.line`.
        if_interrupted: the line printed after Ctrl-C.
        models_dir: the folder of named models where the arguments name none; by default that of `decoder.models`.

    Returns:
        the exit status: what `work` returns, 0 for None, 2 for unusable arguments or files, 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = parser.parse_args(arguments)
    options.line = shlex.join([*program.split(), *arguments])
    if getattr(options, "models_dir", models_dir) is None:
        options.models_dir = models_dir
    try:
        if getattr(options, "threads", None):
            torch.set_num_threads(options.threads)
        return options.work(options) or 0
    except (BenchError, DecoderError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(if_interrupted, file=sys.stderr)
        return 130


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model."""
    parser.add_argument("--model", required=True, help="a model's name, folder or hub id")
    parser.add_argument("--models-dir", type=Path, help="folder of named models")


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """The model's number format."""
    parser.add_argument("--dtype", default="float32", choices=list(NUMBER_FORMATS), help="default float32")


def add_machine(parser: argparse.ArgumentParser) -> None:
    """The device and the threads that the model runs on."""
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1")
    parser.add_argument("--threads", type=int, help="processor threads of a model pass")


def items_of(options: argparse.Namespace) -> list[Item]:
    """The items that `--data`, `--limit`, `--categories` and `--max-chars` select."""
    categories = [name.strip() for name in options.categories.split(",") if name.strip()]
    return load_items(options.data, limit=options.limit, categories=categories, max_chars=options.max_chars)


def run_record(options: argparse.Namespace) -> None:
    """`rag bench record` and `rag train distil` from their parsed arguments: add the missing answers to `--out`."""
    from decoder.recording.loaded_model import open_model
    from decoder.recording.record import record
    from decoder.recording.specs import make_from_spec

    items = items_of(options)
    make_from_spec(options.drafter)  # raises for a wrong spec before the model is loaded
    loaded = open_model(options.model, dtype=options.dtype, device=options.device, models_dir=options.models_dir)
    names = ("dtype", "max_tokens", "drafter", "batch", "keep_logits", "keep_hidden")
    settings = {name: getattr(options, name) for name in names}
    added = record(loaded.engine, loaded.chat, items, options.out, model=loaded.name, say=say, **settings)
    say(f"{added} answers added to {options.out}")


def say(line: str) -> None:
    """Print progress to standard error."""
    print(line, file=sys.stderr, flush=True)
