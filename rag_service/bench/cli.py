"""The command line of `rag bench sessions`: its arguments, and its errors as one line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from decoder.drafter_names import DRAFTER_NAMES
from rag_service.service_error import RagServiceError


def run(argv: Sequence[str], program: str) -> int:
    """Exit status: 0 done, 1 texts differ, 2 unusable arguments or files, 130 interrupted."""
    from rag_service.bench.run import run_sessions

    options = build_parser(program).parse_args(list(argv))
    options.line = shlex.join([*program.split(), *argv])
    return exit_status(lambda: run_sessions(options, say))


def exit_status(run: Callable[[], int]) -> int:
    """The status of a benchmark's run. Errors that a user can mend are printed as one line: 2; interrupted: 130."""
    try:
        return run()
    except (RagServiceError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; run the same command again to continue", file=sys.stderr)
        return 130


def build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Measure conversations over HTTP: with reuse of earlier turns, without it, and plain. A stack is "
        "started with RAG_MODEL and the other settings.",
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="F", help="JSONL files of items")
    parser.add_argument("--limit", type=int, help="conversations per benchmark, spread evenly over it (default all)")
    parser.add_argument("--max-chars", type=int, help="leave out items with more characters, passages included")
    parser.add_argument("--max-tokens", type=int, default=128, help="longest answer, in tokens (default 128)")
    parser.add_argument(
        "--drafter", default="auto", choices=sorted({*DRAFTER_NAMES} - {"off", "plain"}), help="default auto"
    )
    parser.add_argument("--top-k", type=int, help="passages to retrieve (default RAG_RETRIEVAL__TOP_K)")
    parser.add_argument(
        "--long",
        type=int,
        default=2000,
        metavar="TOKENS",
        help="length of the prompts, made of the files' passages, whose follow-ups are compared with cold starts "
        "(default 2000; 0: none)",
    )
    parser.add_argument("--model", help="target model (default RAG_MODEL)")
    parser.add_argument("--note", help="remark for the result, such as what else ran on the machine")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    parser.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw SVG plots (needs matplotlib)")
    return parser


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
