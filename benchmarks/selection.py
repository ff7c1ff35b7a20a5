"""The time to choose one sampled token, by `select` and by the oracle that it must equal.

    python benchmarks/selection.py --json OUT.json --markdown OUT.md

Rows of random logits in bfloat16: most around 0, some sixty around 12, one at 18. No model, no network, one thread.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import oracle, select

VOCABS = (49_152, 151_936)
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature alone": {},
    "top_k 20": {"top_k": 20},
    "top_p 0.9": {"top_p": 0.9},
    "min_p 0.05": {"min_p": 0.05},
    "top_k 20, top_p 0.8": {"top_k": 20, "top_p": 0.8},
    "the same, penalty 1.1": {"top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1},
}
TEMPERATURE = 0.7
ROWS = 40


def logits_of(vocab: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    rows = []
    for number in range(ROWS):
        logits = torch.randn(vocab, generator=random) * 2.5
        logits[torch.randint(vocab, (60,), generator=random)] = torch.randn(60, generator=random) * 3 + 12
        logits[number] = 18.0
        rows.append(logits.bfloat16())
    return rows


def milliseconds(choose: Callable[..., int], *arguments: object) -> tuple[float, int]:
    started = time.perf_counter()
    token = choose(*arguments)
    return 1e3 * (time.perf_counter() - started), token


def measure(vocab: int, name: str) -> dict[str, Any]:
    """Both ways on each row, one after the other; the history holds 1,334 tokens of a prompt and 100 of an answer."""
    history = History(range(0, 4000, 3))
    for token in range(0, 700, 7):
        history.push(token)
    times: dict[str, list[float]] = {"select": [], "oracle": []}
    for number, logits in enumerate(logits_of(vocab)):
        params = SamplingParams(temperature=TEMPERATURE, seed=number, **SETTINGS[name])
        short, token = milliseconds(select, logits, params, 100 + number, history)
        long, expected = milliseconds(oracle, logits, params, 100 + number, history)
        if token != expected:
            raise RuntimeError(f"select chose {token}, the oracle {expected} ({name}, row {number})")
        times["select"].append(short)
        times["oracle"].append(long)
    row: dict[str, Any] = {"vocab": vocab, "settings": name, "rows": ROWS}
    for way, values in times.items():
        row[f"{way}_ms"] = round(median(values), 3)
        row[f"{way}_p95_ms"] = round(sorted(values)[int(0.95 * (len(values) - 1))], 3)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, required=True, help="write the result here")
    parser.add_argument("--markdown", type=Path, help="write a table here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(vocab, name) for vocab in VOCABS for name in SETTINGS]
    facts = environment(shlex.join(["python", "benchmarks/selection.py", *sys.argv[1:]]), temperature=TEMPERATURE)
    write_json(options.json, {"environment": facts, "rows": rows})
    head = ["vocabulary", "settings", "select, ms", "95 % below", "oracle, ms", "95 % below"]
    names = ("select_ms", "select_p95_ms", "oracle_ms", "oracle_p95_ms")
    body = [[str(row["vocab"]), row["settings"], *(f"{row[name]:.3f}" for name in names)] for row in rows]
    lines = ["# The choice of a sampled token", "", f"Medians over {ROWS} rows; both ways chose the same tokens.", ""]
    write_markdown(options.markdown, "\n".join([*lines, *table(head, body, left=2), "", *environment_lines(facts)]))


if __name__ == "__main__":
    main()
