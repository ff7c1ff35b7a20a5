"""How many follow-ups are rewritten to what they mean, without search and answers: the rewriting prompt alone.

    python benchmarks/rewrites.py --model qwen2.5-coder-1.5b --dtype bfloat16 --json OUT --markdown OUT.md

Reads `items/rewrites.jsonl`: conversations in English, German and Dutch, whose last question has to be understood. Each
question after the first is rewritten as the service does it, after the questions before it as they were rewritten. A
rewrite is right if it contains what it must and nothing that is wrong, the subject of an earlier turn. `last` are
questions after a change of subject, `back` go back over one, and `alone` are about something else. The half `choose`
was read while the rewriting was improved.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from decoder import Engine, SamplingParams, load_engine
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from rag_service.answering.models import model_folder, window_of
from rag_service.answering.search.query_rewriter import beginning_of, biases_of, rewrite_of, without_model
from rag_service.prompting.rewriting import standalone
from rag_service.prompting.rewriting.also import plainly
from rag_service.prompting.rewriting.follow_up import names_nothing, needs_rewriting
from rag_service.prompting.rewriting.standalone import Exchange
from rag_service.settings import load_settings
from retriever.languages import language_of
from workers.answers.assembly import assemble
from workers.tokens.tokenizer import Tokens

DATA = Path(__file__).parent / "items" / "rewrites.jsonl"
GROUPS = ("half", "language", "kind")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    settings = load_settings(model=options.model)
    folder = model_folder(settings.model, settings.models_folder)
    tokens, window = Tokens.load(folder), window_of(folder)
    engine = load_engine(settings.model, drafter="auto", dtype=options.dtype, models_dir=settings.models_folder)
    words = (Path(word).name if Path(word).is_absolute() else word for word in sys.argv)
    facts = environment(shlex.join(["python", *words]), model=folder.name, dtype=options.dtype)
    items = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        understood = rewritten_in_turn(item, engine, tokens, window)
        items.append({**item, "understood": understood, "right": is_right(understood[-1], item)})
        print(f"{len(items)} {'right' if items[-1]['right'] else 'wrong'} {understood}", flush=True)
    kept = ("id", *GROUPS, "understood", "right")
    write_json(options.json, {"environment": facts, "items": [{key: one[key] for key in kept} for one in items]})
    write_markdown(options.markdown, markdown(items, facts))
    print(markdown(items, facts))


def rewritten_in_turn(item: Mapping[str, Any], engine: Engine, tokens: Tokens, window: int) -> list[str]:
    """The questions of a conversation as they are understood, one after the other."""
    understood = [item["turns"][0]]
    past: list[Exchange] = []
    for question, answer in zip(item["turns"][1:], item["answers"], strict=True):
        past.append(Exchange(understood[-1], answer))
        understood.append(rewritten(question, past, engine, tokens, window))
    return understood


def rewritten(question: str, past: Sequence[Exchange], engine: Engine, tokens: Tokens, window: int) -> str:
    """As `rag_service.answering.search.query_rewriter.Rewriter` does it."""
    question = plainly(question)
    if not (needs_rewriting(question) or names_nothing(question, language_of(question))):
        return question
    if (other := without_model(question, past)) is not None:
        return other
    begins = beginning_of(question, past)
    language = language_of(f"{past[-1].question} {question}")
    segments = standalone.prompt(question, past, tokens, window, language=language, beginning=begins.text)
    if segments is None:
        return question
    prompt, parts = assemble(tokens, segments)
    params = SamplingParams(max_tokens=standalone.MOST_TOKENS, logit_bias=biases_of(begins, tokens))
    ids: list[int] = []
    for step in engine.generate(prompt, params, segments=parts):
        ids += step.tokens
        if "\n" in tokens.decode(ids):
            break
    else:
        if ids[-1] not in tokens.eos_ids:
            return rewrite_of(None, question, past) or question  # it was cut off
    reply = tokens.decode(one for one in ids if one not in tokens.eos_ids).split("\n")[0]
    return rewrite_of(standalone.completed(begins.text, reply), question, past) or question


def is_right(rewrite: str, item: Mapping[str, Any]) -> bool:
    """Whether it contains what it must, and nothing that is wrong."""
    text = rewrite.casefold()
    return all(word.casefold() in text for word in item["must"]) and not any(
        word.casefold() in text for word in item["wrong"]
    )


def markdown(items: Sequence[Mapping[str, Any]], facts: Mapping[str, object]) -> str:
    """The report."""
    rows = []
    for group, value in [("", ""), *((g, v) for g in GROUPS for v in dict.fromkeys(one[g] for one in items))]:
        found = [one["right"] for one in items if not group or one[group] == value]
        rows.append([group or "all", value, f"{sum(found)} of {len(found)}"])
    lines = ["# Rewrites of follow-ups", "", *table(["", "", "right"], rows, 2), ""]
    return "\n".join([*lines, *environment_lines(facts)])


if __name__ == "__main__":
    main()
