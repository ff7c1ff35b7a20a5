"""The time to choose one sampled token, by `select` and by the oracle that it must equal.

    python benchmarks/selection.py --models smollm2-135m qwen2.5-coder-1.5b --json OUT.json --markdown OUT.md

Rows of logits in bfloat16: random ones, most around 0, some sixty around 12, one at 18; and a model's own, at 32
positions of a text of this repository. One thread, noise drawn anew for each choice unless it says otherwise.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.load import load_target
from decoder.model.pass_parts import TreePass
from decoder.models import default_models_dir, resolve
from decoder.recording.environment import environment
from decoder.sampling import contenders, noise
from decoder.sampling.best_tokens import best_tokens
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import oracle, select

VOCAB = 151_936
AHEAD = "the same, noise drawn before"
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature alone": {},
    AHEAD: {},
    "top_k 20": {"top_k": 20},
    "top_p 0.9": {"top_p": 0.9},
    "min_p 0.05": {"min_p": 0.05},
    "top_k 20, top_p 0.8": {"top_k": 20, "top_p": 0.8},
    "the same, penalty 1.1": {"top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1},
    "greedy, penalty 1.1": {"temperature": 0.0, "repetition_penalty": 1.1},
}
TEMPERATURES = (0.7, 1.0)
DRAFT = 32
"""Rows: read one by one, and all at once."""
REPEATS = 3
TEXT = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"


def random_rows() -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    rows = []
    for number in range(DRAFT):
        logits = torch.randn(VOCAB, generator=random) * 2.5
        logits[torch.randint(VOCAB, (60,), generator=random)] = torch.randn(60, generator=random) * 3 + 12
        logits[number] = 18.0
        rows.append(logits.bfloat16())
    return rows


def model_rows(model: str) -> list[torch.Tensor]:
    """Logits after every seventh token of a text, from token 20 on."""
    from transformers import AutoTokenizer

    target, _ = load_target(model, dtype="bfloat16", device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(resolve(model, default_models_dir()))
    ids = tokenizer(TEXT.read_text(encoding="utf-8")).input_ids[: 20 + 7 * DRAFT]
    tree = DraftTree.chain(ids[1:], [TokenSource("text")] * (len(ids) - 1))
    logits = target.forward_tree([TreePass(target.new_cache(len(ids)), ids[0], tree)])[0].logits
    return [row.clone() for row in logits[20::7]]


def milliseconds(choose: Callable[[], Any], prepare: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least processor time of some repeats, and what they return."""
    times = []
    for _ in range(repeats):
        prepare()
        started = time.thread_time()
        result = choose()
        times.append(1e3 * (time.thread_time() - started))
    return min(times), result


def measure(kind: str, logits: list[torch.Tensor], name: str, temperature: float) -> dict[str, Any]:
    """Both ways on each row, one after the other, and rows at once; the history holds 1,334 tokens of a prompt and 100
    of an answer."""
    history = History(range(0, 4000, 3))
    for token in range(0, 700, 7):
        history.push(token)
    times: dict[str, list[float]] = {"select": [], "at_once": [], "oracle": []}
    params = [SamplingParams(**{"temperature": temperature, "seed": n, **SETTINGS[name]}) for n in range(DRAFT)]
    count = noise.STREAMS if name == AHEAD else DRAFT

    def prepare() -> None:
        if name != AHEAD:
            noise.stream.cache_clear()
        else:
            for number in range(count):
                noise.stream(number, 0, 100 + number, len(logits[0]))

    def at_once(rows: torch.Tensor) -> list[int]:
        read = best_tokens(rows, contenders.temperatures(params[:count]))
        return [select(row, params[n], 100 + n, history, read[n]) for n, row in enumerate(rows)]

    expected, undecided = [], 0
    for number, row in enumerate(logits[:count]):
        arguments = row, params[number], 100 + number, history
        long, token = milliseconds(partial(oracle, *arguments), noise.stream.cache_clear, 2)
        short, chosen = milliseconds(partial(select, *arguments), prepare, REPEATS)
        if chosen != token:
            raise RuntimeError(f"select chose {chosen}, the oracle {token} ({kind}, {name}, row {number})")
        expected.append(token)
        undecided += contenders.choice(*arguments) is None
        times["select"].append(short)
        times["oracle"].append(long)
    all_, tokens = milliseconds(partial(at_once, torch.stack(logits[:count])), prepare, REPEATS)
    if tokens != expected:
        raise RuntimeError(f"rows read at once chose other tokens than the oracle ({kind}, {name})")
    times["at_once"].append(all_ / count)
    row: dict[str, Any] = {"logits": kind, "vocab": len(logits[0]), "settings": name, "rows": count}
    row["temperature"] = params[0].temperature
    row["oracle_only"] = undecided
    for way, values in times.items():
        row[f"{way}_ms"] = round(median(values), 3)
        row[f"{way}_p95_ms"] = round(sorted(values)[int(0.95 * (len(values) - 1))], 3)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=[], help="installed models whose logits are read too")
    parser.add_argument("--json", type=Path, required=True, help="write the result here")
    parser.add_argument("--markdown", type=Path, help="write a table here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = {"random": random_rows()} | {model: model_rows(model) for model in options.models}
    rows = [
        measure(kind, logits, name, temperature)
        for kind, logits in kinds.items()
        for temperature in TEMPERATURES
        for name in SETTINGS
        if temperature == TEMPERATURES[0] or SETTINGS[name].get("temperature") != 0.0
    ]
    facts = environment(shlex.join(["python", "benchmarks/selection.py", *sys.argv[1:]]))
    write_json(options.json, {"environment": facts, "rows": rows})
    head = ["logits", "T", "settings", "select, ms", "95 % below", "of all at once, ms", "oracle, ms", "oracle alone"]
    names = ("select_ms", "select_p95_ms", "at_once_ms", "oracle_ms")
    body = [
        [
            f"{row['logits']} ({row['vocab']})",
            f"{row['temperature']}",
            row["settings"],
            *(f"{row[name]:.3f}" for name in names),
            f"{row['oracle_only']}",
        ]
        for row in rows
    ]
    lines = [
        "# The choice of a sampled token",
        "",
        f"Processor time, least of {REPEATS} (oracle: 2) choices a row, medians over {DRAFT} rows, or {noise.STREAMS}",
        'where the noise is drawn before. "Of all at once" is the time a row if one call reads all rows and all are',
        'chosen from. All ways chose the same tokens. "Oracle alone" counts rows that the best tokens do not decide.',
        "",
    ]
    write_markdown(options.markdown, "\n".join([*lines, *table(head, body, left=3), "", *environment_lines(facts)]))


if __name__ == "__main__":
    main()
