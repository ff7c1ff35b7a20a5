"""Arguments of `rag bench sessions`: read, handed on, errors told in one line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from decoder.drafter_names import DRAFTER_NAMES
from decoder.recording.prompts import BenchError
from rag_service.client.errors import RagError
from rag_service.errors import RagServiceError


def run(argv: Sequence[str], program: str) -> int:
    """Exit status: 0 done, 1 where texts differ, 2 for what cannot be used, 130 where it was interrupted."""
    from rag_service.bench.run import run_sessions

    options = build_parser(program).parse_args(list(argv))
    options.line = shlex.join([*program.split(), *argv])
    try:
        return run_sessions(options, _say)
    except (BenchError, RagServiceError, RagError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return 130


def build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Measure conversations over HTTP, on a stack of its own (RAG_MODEL and the other settings) or on "
        "running ones: with reuse of earlier turns, without it, and plain.",
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="F", help="JSONL files of items")
    parser.add_argument("--limit", type=int, help="conversations a benchmark, spread evenly over it (default all)")
    parser.add_argument("--max-chars", type=int, help="leave out items whose text is longer, passages and all")
    parser.add_argument("--max-tokens", type=int, default=128, help="most tokens an answer has (default 128)")
    parser.add_argument(
        "--drafter", default="auto", choices=sorted({*DRAFTER_NAMES} - {"off", "plain"}), help="default auto"
    )
    parser.add_argument("--top-k", type=int, help="passages a question retrieves (default as set)")
    parser.add_argument(
        "--long",
        type=int,
        default=2000,
        metavar="TOKENS",
        help="length of the prompts whose follow-ups are held against cold starts, of the files' passages (default "
        "2000; 0 makes none)",
    )
    parser.add_argument("--model", help="target model of its own stack (default RAG_MODEL)")
    parser.add_argument("--url", help="a running stack to ask (default: one of its own)")
    parser.add_argument("--url-without-reuse", metavar="URL", help="one whose workers have RAG_KV_CACHE_BYTES=0")
    parser.add_argument("--api-key", help="key for both, default RAG_API_KEY, else the local key")
    parser.add_argument("--note", help="a remark for the result, such as what else ran on the machine")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    parser.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw the curve as SVG (needs matplotlib)")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
