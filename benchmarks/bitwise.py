"""Bitwise passes measured: how many logits of drafts differ from plain decoding's, and what the equality costs.

    python benchmarks/bitwise.py --items FILE.jsonl --model smollm2-135m --json OUT.json --markdown OUT.md

Every answer is decoded plain and with each drafter. Every row whose path is a part of the answer is compared with the
row of plain decoding, all logits of it, bit by bit: in bitwise passes, and for `auto` in the usual ones of the same
weights. Times are of whole decodes, without the prefill, interleaved, as paired ratios; `--drafters` without a name
takes times alone.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder import Engine, SamplingParams
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.drafts.tree import ROOT
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from decoder.planning.calibration import load_or_measure
from decoder.recording.environment import environment
from decoder.recording.loaded_model import open_model
from decoder.recording.prompts import load_items

PLAIN, AUTO = "plain", "auto"
DRAFTERS = ("pld", "copyspec", "casd", "pld_plus", "logitspec", "sdsat", "sdsat_two_step", "eagle", "casd+eagle", AUTO)
EXACT = ("default", "bitwise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=Path, nargs="+", required=True, help="benchmark items")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--drafters", nargs="*", default=list(DRAFTERS))
    parser.add_argument("--untimed", action="store_true", help="compare logits only")
    parser.add_argument("--limit", type=int, default=2, help="items a category")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--max-chars", type=int, default=6000)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    items = load_items(options.items, limit=options.limit, max_chars=options.max_chars)
    loaded = {
        exact: open_model(options.model, dtype=options.dtype, device="cpu", models_dir=options.models_dir, exact=exact)
        for exact in EXACT
    }
    for one in loaded.values():
        one.engine.context.cost = load_or_measure(one.engine.target, None)
    params = SamplingParams(max_tokens=options.max_tokens)
    drafters = {"default": [AUTO], "bitwise": options.drafters}
    counts = {exact: {name: [0, 0, 0] for name in names} for exact, names in drafters.items()}
    times: dict[str, dict[str, list[float]]] = {exact: {PLAIN: [], AUTO: []} for exact in EXACT}
    for number, item in enumerate(items, start=1):
        for exact, one in loaded.items():
            prompt = one.chat.prompt_ids(item, [])
            if not options.drafters:
                continue
            answer, _ = decoded(one.engine, prompt, params, PLAIN, ())
            _, expected = decoded(one.engine, prompt, params, PLAIN, [*prompt, *answer])
            right = dict(expected)
            for name in drafters[exact]:
                tokens, rows = decoded(one.engine, prompt, params, name, [*prompt, *answer])
                compared = [torch.equal(logits, right[place]) for place, logits in rows if place in right]
                counts[exact][name][0] += len(compared)
                counts[exact][name][1] += len(compared) - sum(compared)
                counts[exact][name][2] += tokens != answer
        for name in () if options.untimed else (PLAIN, AUTO):
            for exact, one in loaded.items():
                times[exact][name].append(timed(one.engine, prompt, params, name))
        print(f"{number} of {len(items)} items", file=sys.stderr, flush=True)
    rows = [
        {"passes": exact, "drafter": name, "rows": found[0], "rows that differ": found[1], "other answers": found[2]}
        for exact in EXACT
        for name, found in counts[exact].items()
    ]
    prices = [
        {"mode": name, "answers": len(times["default"][name]), "price": round(statistics.median(pairs), 3)}
        for name in (PLAIN, AUTO)
        if (pairs := [bits / usual for bits, usual in zip(times["bitwise"][name], times["default"][name], strict=True)])
    ]
    facts = environment(shlex.join(["python", "benchmarks/bitwise.py", *sys.argv[1:]]), model=options.model)
    write_json(options.json, {"environment": facts, "rows": rows, "prices": prices})
    write_markdown(options.markdown, markdown(options, facts, rows, prices))


def decoded(
    engine: Engine, prompt: Sequence[int], params: SamplingParams, drafter: str, text: Sequence[int]
) -> tuple[list[int], list[tuple[int, torch.Tensor]]]:
    """The answer, and (position, logits) of every row whose path is a part of `text`."""
    with noted(engine.target, text) as found:
        generation = engine.start(prompt, params, drafter=drafter)
        engine.prefill(generation)
        while not generation.finished:
            engine.step([generation])
    return list(generation.tokens), found


@contextmanager
def noted(target: TargetModel, text: Sequence[int]) -> Iterator[list[tuple[int, torch.Tensor]]]:
    found: list[tuple[int, torch.Tensor]] = []
    forward = target.forward_tree

    def noting(batch: Sequence[Any]) -> Any:
        starts = [part.cache.length for part in batch]
        outputs = forward(batch)
        for part, start, output in zip(batch, starts, outputs, strict=True):
            if isinstance(part, TreePass):
                found.extend(along(part, start, output.logits, text))
        return outputs

    target.forward_tree = noting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del target.forward_tree


def along(part: TreePass, start: int, logits: torch.Tensor, text: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
    if start >= len(text) or text[start] != part.root:
        return
    yield start, logits[0].clone()
    right = {ROOT}
    for node, token in enumerate(part.tree.tokens):
        place = start + part.tree.depths[node]
        if part.tree.parents[node] in right and place < len(text) and text[place] == token:
            right.add(node)
            yield place, logits[1 + node].clone()


def timed(engine: Engine, prompt: Sequence[int], params: SamplingParams, drafter: str) -> float:
    """Seconds of a decode, without its prefill."""
    generation = engine.start(prompt, params, drafter=drafter)
    engine.prefill(generation)
    begun = time.perf_counter()
    while not generation.finished:
        engine.step([generation])
    return time.perf_counter() - begun


def markdown(
    options: argparse.Namespace, facts: dict[str, object], rows: list[dict[str, Any]], prices: list[dict[str, Any]]
) -> str:
    head = ["passes", "drafter", "rows", "rows that differ", "other answers"]
    lines = [
        f"# Bitwise passes with {options.model}, {options.dtype}",
        "",
        "Rows of drafts along the answers, compared with plain decoding's of the same kind of passes: a row differs if "
        "any bit of any logit does. *Other answers*: with other tokens than plain.",
        "",
        *table(head, [[str(row[name]) for name in head] for row in rows], 2),
        "",
        "Time of a decode in bitwise passes, the usual ones' being 1 (median of paired ratios):",
        "",
        *table(
            ["mode", "answers", "price"],
            [[str(row["mode"]), str(row["answers"]), str(row["price"])] for row in prices],
            1,
        ),
        "",
        *environment_lines(facts),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
