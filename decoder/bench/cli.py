"""Command line of the benchmarks: arguments read, work handed on, errors told in one line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from decoder.errors import DecoderError
from decoder.load import DTYPES
from decoder.recording.prompts import BenchError, Item, load_items
from decoder.request import MAX_NODES


def run(argv: Sequence[str] | None, program: str, more: Mapping[str, str] | None = None) -> int:
    """Exit status: 0 done, 1 where a promise is broken, 2 for arguments or files that cannot be used."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = build_parser(program, more).parse_args(arguments)
    options.line = shlex.join([*program.split(), *arguments])
    try:
        if getattr(options, "threads", None):
            torch.set_num_threads(options.threads)
        status: int | None = options.work(options)
    except (BenchError, DecoderError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return 130
    return status or 0


def build_parser(program: str, more: Mapping[str, str] | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Measure decoding.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    decode = commands.add_parser("decode", help="time drafters against plain decoding on a model, and compare answers")
    _model_arguments(decode)
    _item_arguments(decode)
    decode.add_argument(
        "--drafters",
        required=True,
        metavar="A,B",
        help="drafters, such as casd,casd:exact=strict, and transformers' own: hf, hf:prompt_lookup=10, "
        "hf:assistant=MODEL",
    )
    decode.add_argument("--draft-model", metavar="MODEL", help="a smaller model with the same tokenizer")
    decode.add_argument("--eagle-head", metavar="FOLDER", help="an EAGLE head (default the shipped one of the model)")
    decode.add_argument("--sdsat-adapters", metavar="FOLDER", help="SDSAT adapters (default the shipped ones)")
    decode.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default)")
    decode.add_argument("--seed", type=int, default=0, help="seed of sampled answers (default 0)")
    decode.add_argument(
        "--control", action=argparse.BooleanOptionalAction, default=True, help="also count what numerics alone change"
    )
    decode.add_argument("--near-tie", type=float, help="margin that strict answers decide again (default by dtype)")
    decode.add_argument(
        "--cost-64",
        type=float,
        metavar="C",
        help="let auto decide as where a pass over 64 rows costs C of one row's; only counts mean something then",
    )
    decode.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    decode.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    decode.add_argument("--plots", type=Path, metavar="DIR", help="also draw SVG plots (needs matplotlib)")
    decode.set_defaults(work=_decode)

    promise = commands.add_parser("promise", help="hold auto to its promise, from the answers of `decode`")
    promise.add_argument("results", type=Path, nargs="+", metavar="FILE", help="results of decode, or .prompts.jsonl")
    promise.add_argument("--auto", default="auto", metavar="SPEC", help="the mode that promises (default auto)")
    promise.add_argument("--json", type=Path, metavar="OUT", help="file to write")
    promise.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    promise.set_defaults(work=_promise)

    record = commands.add_parser("record", help="write greedy answers down, to simulate drafters on")
    _model_arguments(record)
    _item_arguments(record)
    record.add_argument("--drafter", default="plain", help="drafter that speeds the recording up (default plain)")
    record.add_argument("--batch", type=int, default=1, help="answers decoded together (default 1)")
    record.add_argument("--keep-logits", action="store_true", help="also keep the best 64 logits of every token")
    record.add_argument(
        "--keep-hidden", type=_layers, default=(), metavar="LAYER[,LAYER]", help="also keep these layers' hidden states"
    )
    record.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="file to append to")
    record.set_defaults(work=_record)

    simulate = commands.add_parser("simulate", help="score drafters on recorded answers, without a model")
    simulate.add_argument("--recorded", type=Path, nargs="+", required=True, metavar="FILE", help="recorded answers")
    simulate.add_argument(
        "--drafters", required=True, metavar="A,B", help="drafters, such as pld:max_ngram=2,casd,oracle"
    )
    simulate.add_argument("--max-nodes", type=int, default=MAX_NODES, help=f"draft nodes a step (default {MAX_NODES})")
    simulate.add_argument(
        "--cost-64", type=float, default=1.5, metavar="C", help="a pass over 64 rows costs C of one row's (default 1.5)"
    )
    simulate.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    simulate.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write a table")
    simulate.set_defaults(work=_simulate)

    for name, about in (more or {}).items():  # last, and never parsed here
        commands.add_parser(name, help=about)
    return parser


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="a model's name, folder or hub id")
    parser.add_argument("--models-dir", type=Path, help="folder of named models")
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES), help="default float32")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1")
    parser.add_argument("--threads", type=int, help="processor threads of a model pass")
    parser.add_argument("--max-tokens", type=int, default=128, help="most tokens an answer has (default 128)")


def _item_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="F", help="JSONL files of items")
    parser.add_argument("--limit", type=int, help="items per category, spread evenly over it (default all)")
    parser.add_argument(
        "--categories", default="", metavar="A,B", help="only these; category or benchmark/category (default all)"
    )
    parser.add_argument("--max-chars", type=int, help="leave out items with more characters before --limit counts")


def _layers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _items(options: argparse.Namespace) -> list[Item]:
    categories = [name.strip() for name in options.categories.split(",") if name.strip()]
    return load_items(options.data, limit=options.limit, categories=categories, max_chars=options.max_chars)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _decode(options: argparse.Namespace) -> None:
    from decoder.bench.decode.run import run_decode

    run_decode(options, _items(options), _say)


def _promise(options: argparse.Namespace) -> int:
    from decoder.bench.decode.promise_report import run_promise

    return run_promise(options, print)


def _record(options: argparse.Namespace) -> None:
    from decoder.recording.opened import open_model
    from decoder.recording.record import record
    from decoder.recording.specs import make_from_spec

    items = _items(options)
    make_from_spec(options.drafter)  # a wrong spec fails before the model is loaded
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
        keep_logits=options.keep_logits,
        keep_hidden=options.keep_hidden,
        say=_say,
    )
    _say(f"{added} answers added to {options.out}")


def _simulate(options: argparse.Namespace) -> None:
    from decoder.bench.simulated.report import run_simulate

    run_simulate(options, _say)
