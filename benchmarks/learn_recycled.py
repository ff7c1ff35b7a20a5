"""Learn how often recycled tokens are accepted, by decoding training prompts, and add that to the table that `auto`
ships with.

    python benchmarks/learn_recycled.py --model qwen2.5-coder-1.5b --dtype int8 --data prompts.jsonl --limit 60 \
        --onto decoder/drafters/learning/tables/acceptance.json --out decoder/drafters/learning/tables/acceptance.json

Recordings lack the rows of rejected drafts, which recycling learns from, so the model has to decode. Rows are assumed
to be cheap, so that even unlikely tokens are drafted. Only the averages of recycled tokens are taken over: those of
copies come from `learn_acceptance.py`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from decoder.drafters.auto.copies import RECYCLED
from decoder.drafters.learning.acceptance import AcceptanceTable, AcceptanceTables
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.loaded_model import open_model
from decoder.recording.prompts import load_items
from decoder.recording.record import record

COST_OF_64 = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="JSONL files of training prompts")
    parser.add_argument("--limit", type=int, default=60, help="prompts per category (default 60)")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--onto", type=Path, required=True, help="the table that gets the averages")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    loaded = open_model(options.model, dtype=options.dtype, device="cpu", models_dir=options.models_dir)
    context = loaded.engine.context
    if not context.recycles:
        raise SystemExit("error: beside a head, a draft model or adapters nothing is recycled; name another model")
    context.cost, context.acceptance = AssumedCurve(1.0, COST_OF_64), AcceptanceTables()
    start = AcceptanceTable.load(options.onto)
    start.take_type(RECYCLED, AcceptanceTable())
    context.acceptance.set("", start)
    with tempfile.TemporaryDirectory() as folder:
        record(
            loaded.engine,
            loaded.chat,
            load_items(options.data, limit=options.limit),
            Path(folder) / "answers.jsonl",
            model=loaded.name,
            dtype=options.dtype,
            max_tokens=options.max_tokens,
            drafter="auto",
            say=print,
        )
    table = AcceptanceTable.load(options.onto)
    table.take_type(RECYCLED, context.acceptance.of(""))
    table.save(options.out)


if __name__ == "__main__":
    main()
