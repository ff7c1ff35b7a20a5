"""How much of a chunk an embedding model does not read: tokens behind its window, by language.

Usage: python benchmarks/embedder_window.py XQUAD.JSONL [--model FOLDER] --json OUT.json --markdown OUT.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from retriever import make_embedder
from retriever.chunking.chunker import FULL, TARGET_BYTES, chunk, embedding_text, size_in_bytes, size_in_tokens

MODEL = Path(__file__).resolve().parents[1] / ".rag/models/all-minilm-l6-v2"
PARAGRAPHS = 5
"""Of a document."""


def measure(documents: Sequence[str], embedder: Any) -> dict[str, float]:
    """Chunks of the documents, their tokens, and the share behind the window, sized in tokens and in bytes."""
    most = embedder.most_tokens
    count = lru_cache(maxsize=8192)(embedder.tokens)
    result: dict[str, float] = {"documents": len(documents)}
    for name, size, target in (
        ("", size_in_tokens(count, most), FULL),
        ("by_bytes_", size_in_bytes, TARGET_BYTES),
    ):
        texts = []
        for number, text in enumerate(documents):
            parts = chunk(text, "plain", measure=size, target=target)
            texts += [
                embedding_text(f"Document {number}", part, lambda text: bool(name) or count(text) <= most)  # noqa: B023
                for part in parts
            ]
        sizes = [count(text) for text in texts]
        result[f"{name}chunks"] = len(texts)
        result[f"{name}tokens"] = sum(sizes)
        result[f"{name}cut"] = sum(max(0, size - most) for size in sizes) / sum(sizes)
    return result


def page(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            *(str(row[one]) for one in ("documents", "chunks", "tokens")),
            f"{row['cut']:.2%}",
            f"{row['by_bytes_cut']:.2%}",
        ]
        for name, row in result["rows"].items()
    ]
    head = ["language", "documents", "chunks", "tokens", "cut off", "cut off, chunks sized in bytes"]
    lines = [
        "# What the embedding model does not read",
        "",
        f"Share of the tokens of chunks, with title and headings, behind the window of {result['model']} "
        f"({result['window']} tokens). Documents of {PARAGRAPHS} paragraphs of XQuAD in twelve languages.",
        "",
        *table(head, rows, left=1),
        "",
        *environment_lines(result["environment"]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how much of chunks an embedding model does not read.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args()
    paragraphs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line in options.data.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        paragraphs[record["category"]].update(dict.fromkeys(record["context"]))
    embedder: Any = make_embedder(str(options.model), Path)
    rows = {}
    for language, own in paragraphs.items():
        texts = list(own)
        documents = ["\n\n".join(texts[n : n + PARAGRAPHS]) for n in range(0, len(texts), PARAGRAPHS)]
        rows[language] = measure(documents, embedder)
    result = {
        "model": embedder.name,
        "window": embedder.most_tokens,
        "environment": environment(f"python benchmarks/embedder_window.py {options.data.name}", model=embedder.name),
        "rows": rows,
    }
    write_json(options.json, result)
    write_markdown(options.markdown, page(result))


if __name__ == "__main__":
    main()
