"""Command line of the benchmarks: reads arguments and calls the command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from decoder.recording.arguments import add_dtype, add_machine, add_model, items_of, run_command, run_record, say
from decoder.request import MAX_NODES


def run(
    argv: Sequence[str] | None, program: str, more: Mapping[str, str] | None = None, models_dir: Path | None = None
) -> int:
    """Exit status: 0 done, 1 if `promise` fails, 2 for unusable arguments or files, 130 after Ctrl-C."""
    stopped = "stopped; the same command continues the run"
    return run_command(build_parser(program, more), argv, program, stopped, models_dir)


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
    decode.add_argument("--eagle-head", metavar="FOLDER", help="an EAGLE head (default: the model's shipped head)")
    decode.add_argument("--sdsat-adapters", metavar="FOLDER", help="SDSAT adapters (default: the model's shipped ones)")
    decode.add_argument("--temperature", type=float, default=0.0, help="default 0, which is greedy")
    decode.add_argument("--seed", type=int, default=0, help="seed of sampled answers (default 0)")
    decode.add_argument(
        "--control",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also count the tokens that numerics alone change (default: yes)",
    )
    decode.add_argument(
        "--near-tie", type=float, help="margin below which strict answers decide again (default: by dtype)"
    )
    decode.add_argument(
        "--cost-64",
        type=float,
        metavar="C",
        help="make auto assume that a pass over 64 rows costs C times one row's; only counts are meaningful then",
    )
    _result_arguments(decode)
    decode.add_argument("--plots", type=Path, metavar="DIR", help="also draw SVG plots (needs matplotlib)")
    decode.set_defaults(work=_decode)

    promise = commands.add_parser(
        "promise", help="check in results of `decode` that auto is not slower than plain or the best single drafter"
    )
    promise.add_argument("results", type=Path, nargs="+", metavar="FILE", help="results of decode, or .prompts.jsonl")
    promise.add_argument("--auto", default="auto", metavar="SPEC", help="the mode to check (default auto)")
    _result_arguments(promise, required=False)
    promise.set_defaults(work=_promise)

    record = commands.add_parser("record", help="save a model's greedy answers, to simulate drafters on them")
    _model_arguments(record)
    _item_arguments(record)
    record.add_argument("--drafter", default="plain", help="drafter that speeds the recording up (default plain)")
    record.add_argument("--batch", type=int, default=1, help="answers decoded together (default 1)")
    record.add_argument("--keep-logits", action="store_true", help="also save the best 64 logits of every token")
    record.add_argument(
        "--keep-hidden", type=_layers, default=(), metavar="LAYER[,LAYER]", help="also save these layers' hidden states"
    )
    record.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="file to append to")
    record.set_defaults(work=run_record)

    simulate = commands.add_parser("simulate", help="score drafters on recorded answers, without a model")
    simulate.add_argument("--recorded", type=Path, nargs="+", required=True, metavar="FILE", help="recorded answers")
    simulate.add_argument(
        "--drafters", required=True, metavar="A,B", help="drafters, such as pld:max_ngram=2,casd,oracle"
    )
    simulate.add_argument(
        "--max-nodes", type=int, default=MAX_NODES, help=f"most draft nodes per step (default {MAX_NODES})"
    )
    simulate.add_argument(
        "--cost-64",
        type=float,
        default=1.5,
        metavar="C",
        help="assume that a pass over 64 rows costs C times one row's (default 1.5)",
    )
    _result_arguments(simulate)
    simulate.set_defaults(work=_simulate)

    replayed = commands.add_parser(
        "replay", help="time drafters at a model's shape: random weights, and the choices of recorded answers"
    )
    replayed.add_argument("--recorded", type=Path, nargs="+", required=True, metavar="FILE", help="recorded answers")
    shapes = "tiny, smollm2-135m, qwen2.5-1.5b, qwen2.5-7b, qwen2.5-14b"
    replayed.add_argument("--shape", required=True, metavar="SHAPE", help=shapes)
    replayed.add_argument("--drafters", default="plain,auto", metavar="A,B", help="drafters (default plain,auto)")
    replayed.add_argument(
        "--at-once", type=_layers, default=(1, 8), metavar="N,N", help="numbers of answers decoded together (1,8)"
    )
    replayed.add_argument("--answers", type=int, default=24, help="answers of a run, at least (default 24)")
    replayed.add_argument(
        "--graphs", action=argparse.BooleanOptionalAction, default=True, help="CUDA graphs on a GPU (default: yes)"
    )
    add_dtype(replayed)
    add_machine(replayed)
    _result_arguments(replayed)
    replayed.set_defaults(work=_replay)

    for name, about in (more or {}).items():  # only listed: the caller runs them
        commands.add_parser(name, help=about)
    return parser


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_dtype(parser)
    add_machine(parser)
    parser.add_argument("--max-tokens", type=int, default=128, help="most tokens of an answer (default 128)")


def _item_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="F", help="JSONL files of items")
    parser.add_argument("--limit", type=int, help="items per category, spread evenly over it (default: all)")
    parser.add_argument(
        "--categories", default="", metavar="A,B", help="only these; category or benchmark/category (default: all)"
    )
    parser.add_argument("--max-chars", type=int, help="skip items with more characters, before --limit counts")


def _result_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    parser.add_argument("--json", type=Path, required=required, metavar="OUT", help="file to write")
    parser.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")


def _layers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _decode(options: argparse.Namespace) -> None:
    from decoder.bench.decode.command import run_decode

    run_decode(options, items_of(options), say)


def _promise(options: argparse.Namespace) -> int:
    from decoder.bench.decode.slowdown_check import run_check

    return run_check(options, print)


def _simulate(options: argparse.Namespace) -> None:
    from decoder.bench.simulated.simulate import run_simulate

    run_simulate(options, say)


def _replay(options: argparse.Namespace) -> None:
    from decoder.bench.replayed.replay import run_replay

    run_replay(options, say)
