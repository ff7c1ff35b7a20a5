"""Command line of training. Each command adds its own subparser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from decoder.recording.arguments import run_command
from decoder.training import distil_command
from decoder.training.eagle import command as eagle_command
from decoder.training.sdsat import command as sdsat_command

COMMANDS = (eagle_command, sdsat_command, distil_command)
"""Modules with `add(commands)`, which adds a subparser whose default `work` takes the parsed options."""


def run(argv: Sequence[str] | None, program: str, models_dir: Path | None = None) -> int:
    """Exit status: 0 done, 2 for unusable arguments or files, 130 after Ctrl-C."""
    stopped = "stopped; the same command with --resume continues the run"
    return run_command(build_parser(program), argv, program, stopped, models_dir)


def build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Train a drafter for a model.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser
