"""How much of the prompts of people who ask about the same documents needs no pass, with passages in several orders.

Usage: python benchmarks/prompt_reuse.py SET [--people N] [--model FOLDER] [--embedder FOLDER] --json OUT --markdown OUT

The questions of a retrieval set are asked in the order in which `people` people who read the same documents would ask
them: those to neighbouring documents of the set come together, shuffled. Each is a session of its own of one tenant,
retrieved and put into a prompt as the service does, and the service's own `KvStore` says which of its tokens have rows.
The store holds what fits its limit with the rows of the model's shape; rows here are small ones of one number.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from decoder import Prefix
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.model.kv_cache import KVCache
from decoder.recording.environment import environment
from rag_service.bench.retrieval.quality import ingested
from rag_service.bench.retrieval.sets import Query, load
from rag_service.prompting import prompt
from rag_service.prompting.template import Templates
from rag_service.settings import load_settings
from retriever import Collection, Library, make_embedder
from workers.broker import keys
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import MOST_BYTES, KvStore, Owner

MODELS = Path(__file__).resolve().parents[1] / ".rag/models"
ROW_BYTES = 28 * 2 * 2 * 128 * 2
"""Keys and values of a token in Qwen2.5-1.5B: layers, two, heads, numbers of a head, bytes."""
ANSWER = 20
"""Tokens of an answer, which stand in the session's rows behind the prompt."""
MAX_TOKENS = 256
WINDOW = 8192
NEAR = 0.1
"""Scores that differ by less count as equal, in standard deviations of the search."""
Passages = list[dict[str, Any]]


def best_last(passages: Passages) -> Passages:
    return passages


def best_first(passages: Passages) -> Passages:
    return passages[::-1]


def equal_by_place(passages: Passages) -> Passages:
    """Passages of nearly equal scores stand in the order of the collection."""
    groups: list[Passages] = []
    for one in passages:
        if groups and groups[-1][0]["score"] - one["score"] < NEAR:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [one for group in groups for one in sorted(group, key=_place, reverse=True)]


def by_place(passages: Passages) -> Passages:
    """All passages stand in the order of the collection, whatever their scores."""
    return sorted(passages, key=_place, reverse=True)


ORDERS: dict[str, Callable[[Passages], Passages]] = {
    "best last, as the service does": best_last,
    "best last, equal ones by place": equal_by_place,
    "best first": best_first,
    "all by place": by_place,
}


def _place(passage: dict[str, Any]) -> tuple[str, int]:
    return str(passage["document_id"]), int(passage["source_start"])


def in_turns(queries: Sequence[Query], people: int) -> list[Query]:
    """Queries to neighbouring ones come together, shuffled: as many as four of each of the people."""
    chooser = random.Random(7)
    size, found = 4 * people, []
    for start in range(0, len(queries), size):
        block = list(queries[start : start + size])
        chooser.shuffle(block)
        found += block
    return found


def measure(collection: Collection, queries: Sequence[Query], tokens: Tokens) -> dict[str, dict[str, float]]:
    """Tokens of all prompts, and those with rows, for each order."""
    templates = Templates()
    passages = {query.id: [asdict(one) for one in collection.search(query.text, 5)] for query in queries}
    found = {}
    for name, order in ORDERS.items():
        small = KVCache(1, 1, 1, 1, torch.float16, torch.device("cpu")).nbytes
        store = KvStore(MOST_BYTES * (small + 4) // (ROW_BYTES + 4))  # the ids of a row take four bytes
        system = 0
        for number, query in enumerate(queries):
            template = templates.of(query.text)
            built = prompt.build(
                query.text,
                order(passages[query.id]),
                [],
                tokens,
                window=WINDOW,
                max_tokens=MAX_TOKENS,
                template=template,
            )
            ids = [token for segment in built.segments for token in _ids(segment, tokens)]
            own = takewhile(lambda segment: segment.kind in ("template", "system"), built.segments)
            before = sum(len(_ids(segment, tokens)) for segment in own)
            owner = Owner(keys.owner("benchmark", f"person-{number}"), f"session-{number}", shared=before)
            prefix = store.take(owner, ids)
            store.began(len(ids), min(prefix.common(ids), len(ids) - 1) if prefix else 0)
            system += before
            rows = KVCache(1, 1, 1, len(ids) + ANSWER, torch.float16, torch.device("cpu"))
            rows.length = len(ids) + ANSWER
            store.put(owner, Prefix(ids + [number] * ANSWER, rows, {}))
        found[name] = {"system_tokens": system, **store.state()}
    return found


def _ids(segment: Any, tokens: Tokens) -> list[int]:
    if segment.ids is not None:
        return list(segment.ids)
    if segment.kind == "template":
        return tokens.encode_template(segment.text)
    return list(tokens.encode_content(segment.text).ids)


def page(result: dict[str, Any]) -> str:
    facts = result["environment"]
    body = []
    for name, row in result["orders"].items():
        asked, system = row["prompt_tokens"], row["system_tokens"]
        body.append(
            [name, str(asked), f"{row['reused_tokens'] / asked:.1%}", f"{system / asked:.1%}", str(row["evicted"])]
        )
    head = ["order of the passages", "prompt tokens", "reused", "the system prompt's share", "evicted"]
    lines = [
        "# Prompts of people who ask about the same documents",
        "",
        f"{facts['questions']} questions of {facts['set']}, each a session of its own, of one tenant. Those to "
        f"neighbouring documents come together, shuffled: {facts['people']} people, four questions each. "
        "Five passages. *Reused*: the share of prompt tokens whose keys and values the worker had; it has "
        f"{MOST_BYTES >> 20} MiB for them, in rows of Qwen2.5-1.5B's shape.",
        "",
        *table(head, body, left=1),
        "",
    ]
    return "\n".join([*lines, *environment_lines(facts)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--limit", type=int, help="at most so many questions")
    parser.add_argument("--model", type=Path, default=MODELS / "qwen2.5-coder-1.5b", help="whose tokenizer counts")
    parser.add_argument("--embedder", type=Path, default=MODELS / "all-minilm-l6-v2")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    settings = load_settings(embedding_model=options.embedder.name)
    place, prefixes = settings.embedding_place, settings.embedding_prefixes
    embedder = make_embedder(options.embedder.name, lambda _: options.embedder, *place, *prefixes)
    one = load(options.set)
    documents = {document.id: number for number, document in enumerate(one.documents)}
    queries = sorted(one.queries, key=lambda query: min(documents[name] for name in query.relevant))
    queries = in_turns(queries[: options.limit], options.people)
    tokens = Tokens.load(options.model)
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder:
        library = Library(Path(folder), embedder)
        orders = measure(ingested(library, one, print), queries, tokens)
        library.close()
    command = f"python benchmarks/prompt_reuse.py {options.set.name} --people {options.people}"
    facts = environment(
        command, set=one.name, questions=len(queries), people=options.people, tokenizer=options.model.name
    )
    result = {"environment": facts, "orders": orders}
    write_json(options.json, result)
    write_markdown(options.markdown, page(result))
    print(page(result))


if __name__ == "__main__":
    main()
