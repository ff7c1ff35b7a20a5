"""Command line of training: arguments read, work handed on, errors told in one line. Each command adds itself."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

import torch

from decoder.errors import DecoderError
from decoder.recording.prompts import BenchError
from decoder.training import distil_command
from decoder.training.eagle import command as eagle_command
from decoder.training.sdsat import command as sdsat_command

COMMANDS = (eagle_command, sdsat_command, distil_command)
"""Modules with `add(commands)`, which adds a subparser whose default `work` takes the parsed options."""


def run(argv: Sequence[str] | None, program: str) -> int:
    """Exit status: 0 done, 2 for arguments or files that cannot be used, 130 stopped from outside."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = build_parser(program).parse_args(arguments)
    options.line = shlex.join([*program.split(), *arguments])
    try:
        if getattr(options, "threads", None):
            torch.set_num_threads(options.threads)
        options.work(options)
    except (BenchError, DecoderError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command with --resume goes on where it was", file=sys.stderr)
        return 130
    return 0


def build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Train what drafts for a model.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser
