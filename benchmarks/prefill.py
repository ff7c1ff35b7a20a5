"""How many prompt tokens a second: the engine, transformers on the same weights, and llama.cpp on its file, in turns.

    python benchmarks/prefill.py --model qwen2.5-coder-1.5b --gguf FILE.gguf --server llama-server --threads 2 \
        --text docs/architecture.md --json OUT.json --markdown OUT.md

A prompt is the beginning of a text. Each round asks everyone for one token of each length, from an empty cache.
llama.cpp's server as in `against_llamacpp.py`; without `--gguf` it is left out.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from against_llamacpp import LLAMA, Servers

from decoder.bench.decode.peers import PEER, Peers
from decoder.bench.decode.timing import TimedAnswer, measure
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.load import NUMBER_FORMATS
from decoder.models import default_models_dir
from decoder.recording.environment import environment
from decoder.recording.loaded_model import LoadedModel, open_model
from decoder.recording.prompts import BenchError, Item
from decoder.sampling.params import SamplingParams

ENGINE = "engine"


def run(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(options.threads)
    loaded = {
        dtype: open_model(options.model, dtype=dtype, device="cpu", models_dir=options.models_dir)
        for dtype in options.dtypes
    }
    first = next(iter(loaded.values()))
    text = options.text.read_text(encoding="utf-8")
    ids = first.chat.prompt_ids(Item("text", "prefill", "text", (text,)), [])
    if len(ids) < max(options.lengths):
        raise BenchError(f"{options.text} has {len(ids)} tokens; take a text of at least {max(options.lengths)}")
    ends = sorted(first.engine.eos_token_ids)
    peers = {dtype: Peers(one.engine.target, ends, _no_assistant) for dtype, one in loaded.items()}
    window = max(options.lengths) + 8
    servers = options.gguf and Servers(options.gguf, [LLAMA], options.threads, window, ends, options.server)
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds + 1):  # the first warms up
        for length in options.lengths:
            for name, answer in _answers(loaded, peers, servers, ids[:length]):
                times.setdefault((name, length), []).append(answer)
    rows = [
        {"who": name, "tokens": length, "tokens_per_s": round(length / statistics.median(taken[1:]), 1)}
        for (name, length), taken in times.items()
    ]
    facts = {"model": Path(options.model).name, "threads": options.threads, "rounds": options.rounds}
    command = shlex.join(["python", "benchmarks/prefill.py", *sys.argv[1:]])
    return {"environment": environment(command, **facts), "rows": rows}


def _answers(
    loaded: dict[str, LoadedModel], peers: dict[str, Peers], servers: Servers | None, ids: list[int]
) -> list[tuple[str, float]]:
    """Seconds to the first token by name."""
    params = SamplingParams(max_tokens=1)
    found = []
    for dtype, one in loaded.items():
        found.append((f"{ENGINE}, {dtype}", measure(one.engine, ids, params, "plain")))
        if dtype not in {"int8", "int4"}:  # transformers has no such weights
            found.append((f"transformers, {dtype}", peers[dtype].measure(PEER, ids, params)))
    if servers:
        found.append((LLAMA, servers.measure(LLAMA, ids, params)))
    return [(name, _seconds(answer)) for name, answer in found]


def _seconds(answer: TimedAnswer) -> float:
    return answer.prefill_s


def _no_assistant(name: str) -> Any:
    raise BenchError(f"{name} is not used here")


def markdown(result: dict[str, Any]) -> str:
    lengths = sorted({row["tokens"] for row in result["rows"]})
    names = list(dict.fromkeys(row["who"] for row in result["rows"]))
    speed = {(row["who"], row["tokens"]): row["tokens_per_s"] for row in result["rows"]}
    lines = ["# Prompt tokens a second, by the length of the prompt", ""]
    lines += table(
        ["", *map(str, lengths)], [[name, *(f"{speed[name, one]:.0f}" for one in lengths)] for name in names], left=1
    )
    return "\n".join([*lines, "", *environment_lines(result["environment"])])


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the speed of prefill on the CPU.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--models-dir", type=Path, default=default_models_dir())
    parser.add_argument("--dtypes", nargs="+", choices=list(NUMBER_FORMATS), default=["bfloat16"])
    parser.add_argument("--gguf", type=Path, help="the GGUF file; without it, llama.cpp is left out")
    parser.add_argument("--server", type=Path, help="a llama-server built for this processor (default: xllamacpp's)")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    try:
        result = run(options)
    except (BenchError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_json(options.json, result)
    write_markdown(options.markdown, markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
