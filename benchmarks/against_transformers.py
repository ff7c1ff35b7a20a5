"""The engine against transformers' own `generate`: the same greedy answers, and no more passes for prompt lookup.

    python benchmarks/against_transformers.py --model smollm2-135m --data items.jsonl --limit 5 --json OUT.json

Plain decoding must equal `generate` token by token, or first differ where plain preferred its token by at most 1e-3
(fp32: kernels differ in the last bits). `pld:max_ngram=2` must not take more target passes after prefill than
`prompt_lookup_num_tokens=10`, plus one: transformers already drafts in the prefill pass, the engine does not. Exits
with 1 if either rule is violated on any prompt.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder import Engine, SamplingParams
from decoder.bench.decode.divergence import plain_margins
from decoder.bench.decode.peers import Peers
from decoder.bench.decode.timing import first_difference, measure
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.load import DTYPES
from decoder.models import default_models_dir
from decoder.recording.arguments import items_of
from decoder.recording.environment import environment
from decoder.recording.loaded_model import open_model
from decoder.recording.prompts import Item

MARGIN = 1e-3
LOOKUP = "pld:max_ngram=2"
THEIR_LOOKUP = "hf:prompt_lookup=10:max_matching_ngram_size=2"


def compare(engine: Engine, peers: Peers, item: Item, prompt_ids: list[int], max_tokens: int) -> dict[str, Any]:
    """One prompt: plain against plain, lookup against lookup."""
    params = SamplingParams(max_tokens=max_tokens)
    plain = measure(engine, prompt_ids, params, "plain")
    lookup = measure(engine, prompt_ids, params, LOOKUP)
    theirs = peers.measure("hf", prompt_ids, params)
    their_lookup = peers.measure(THEIR_LOOKUP, prompt_ids, params)
    row: dict[str, Any] = {
        "id": item.id,
        "benchmark": item.benchmark,
        "category": item.category,
        "prompt_tokens": len(prompt_ids),
        "tokens": len(plain.tokens),
        "passes": lookup.steps,
        "transformers_passes": their_lookup.steps,
    }
    answers = {"plain": theirs.tokens, "lookup": lookup.tokens, "transformers_lookup": their_lookup.tokens}
    for name, answer in answers.items():
        index = first_difference(answer, plain.tokens)
        row[f"{name}_differs_at"] = index
        margins = {} if index is None else plain_margins(engine, prompt_ids, plain.tokens, [index], params)
        row[f"{name}_margin"] = None if index is None else margins[index]
    return row


def failures(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The violations of the two rules, as sentences."""
    failed = []
    for row in rows:
        for name in ("plain", "lookup"):
            if row[f"{name}_margin"] is not None and row[f"{name}_margin"] > MARGIN:
                margin = row[f"{name}_margin"]
                failed.append(f"{row['id']}: {name} differs at token {row[f'{name}_differs_at']}, margin {margin:.2g}")
        if row["passes"] > row["transformers_passes"] + 1:
            failed.append(f"{row['id']}: {row['passes']} passes, transformers {row['transformers_passes']}")
    return failed


def markdown(result: dict[str, Any]) -> str:
    rows, failed = result["rows"], result["failures"]
    differing = [row for row in rows if row["plain_differs_at"] is not None]
    more = [row["passes"] - row["transformers_passes"] for row in rows]
    lines = ["# Against transformers' generate", ""]
    lines += [f"* Plain decoding: {len(rows) - len(differing)} of {len(rows)} answers identical."]
    lines += [
        f"  * {row['id']}: first difference at token {row['plain_differs_at']}, margin {row['plain_margin']:.2g}"
        for row in differing
    ]
    lines += [
        f"* `{LOOKUP}` against `prompt_lookup_num_tokens=10`, target passes after prefill: {min(more):+d} to "
        f"{max(more):+d}, median {statistics.median(more):+g}.",
        "* Broken rules: " + ("; ".join(failed) or "none") + ".",
        "",
    ]
    head = ["prompt", "prompt tokens", "tokens", "passes", "transformers", "plain differs at"]
    columns = ("id", "prompt_tokens", "tokens", "passes", "transformers_passes", "plain_differs_at")
    body = [["–" if row[column] is None else f"{row[column]}" for column in columns] for row in rows]
    return "\n".join([*lines, *table(head, body, left=1), "", *environment_lines(result["environment"])])


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare greedy decoding and prompt lookup with transformers.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--models-dir", type=Path, default=default_models_dir())
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--categories", default="")
    parser.add_argument("--max-chars", type=int, default=6000)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    loaded = open_model(options.model, dtype=options.dtype, device="cpu", models_dir=options.models_dir)
    peers = Peers(loaded.engine.target, sorted(loaded.engine.eos_token_ids), lambda name: None)
    rows = []
    for item in items_of(options):
        rows.append(compare(loaded.engine, peers, item, loaded.chat.prompt_ids(item, []), options.max_tokens))
        print(f"{item.id}: {rows[-1]}", file=sys.stderr, flush=True)
    command = shlex.join(["python", "benchmarks/against_transformers.py", *sys.argv[1:]])
    facts = environment(command, model=loaded.name, dtype=options.dtype, max_tokens=options.max_tokens)
    result = {"environment": facts, "rows": rows, "failures": failures(rows)}
    write_json(options.json, result)
    write_markdown(options.markdown, markdown(result))
    print("\n".join(failures(rows)) or f"{len(rows)} prompts: both rules hold")
    return 1 if failures(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
