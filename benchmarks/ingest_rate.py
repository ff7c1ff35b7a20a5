"""Chunks a second of a whole ingest, beside sentence-transformers' `encode` of the same texts in float32.

Usage: python benchmarks/ingest_rate.py FOLDER [--model FOLDER] [--files N] --json OUT.json --markdown OUT.md

The Markdown files below FOLDER are dealt into groups. Each group is ingested into one embedded collection, and then
the texts that were embedded are given to `encode` with its defaults; the median of the groups' ratios is told.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from rag_service.settings import load_settings
from retriever import Library, SourceDocument, make_embedder
from retriever.embedding.embedder import Vectors

MODEL = Path(__file__).resolve().parents[1] / ".rag/models/all-minilm-l6-v2"
GROUPS = 9
"""Besides a first one, after which model and collection are warm."""


class Listening:
    """An embedder that keeps the texts that were embedded."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        self.texts += texts
        vectors: Vectors = self._inner.embed_documents(texts)
        return vectors


def measure(files: Sequence[Path], embedder: Any, encode: Any) -> list[dict[str, float]]:
    """A row for each group: its chunks, and chunks a second of both."""
    heard = Listening(embedder)
    rows = []
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder:
        library = Library(Path(folder), heard)
        collection = library.create("files")
        for group in range(GROUPS + 1):
            documents = [
                SourceDocument(name=file.name, text=file.read_text(encoding="utf-8"), document_id=f"{number}.md")
                for number, file in list(enumerate(files))[group :: GROUPS + 1]
            ]
            heard.texts.clear()
            begun = time.perf_counter()
            collection.ingest(documents)
            ingested = time.perf_counter()
            encode(heard.texts, show_progress_bar=False)
            encoded = time.perf_counter()
            count = len(heard.texts)
            rows.append({"chunks": count, "ingest": count / (ingested - begun), "encode": count / (encoded - ingested)})
            print(f"{count} chunks: {rows[-1]['ingest']:.1f} and {rows[-1]['encode']:.1f} a second", flush=True)
        library.close()
    return rows[1:]


def page(result: dict[str, Any]) -> str:
    body = [
        [str(row["chunks"]), f"{row['ingest']:.1f}", f"{row['encode']:.1f}", f"{row['ingest'] / row['encode']:.2f}"]
        for row in result["rows"]
    ]
    lines = [
        "# Ingest beside sentence-transformers",
        "",
        f"Chunks a second of an ingest, with embedding in {result['environment']['dtype']} and all else, and of "
        "`SentenceTransformer.encode` in float32 over the same texts, by group of documents. Median of the ratios: "
        f"**{result['ratio']:.2f}**.",
        "",
        *table(["chunks", "ingest", "encode", "ratio"], body, left=0),
        "",
    ]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--files", type=int, default=300, help="at most so many, spread over the folder")
    parser.add_argument("--note", help="remark for the result")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    settings = load_settings(embedding_model=options.model.name)
    device, dtype = settings.embedding_place
    embedder = make_embedder(options.model.name, lambda _: options.model, device, dtype, *settings.embedding_prefixes)
    files = sorted(options.folder.rglob("*.md"))
    files = files[:: max(1, len(files) // options.files)]
    rows = measure(files, embedder, SentenceTransformer(str(options.model), local_files_only=True).encode)
    ratio = statistics.median(row["ingest"] / row["encode"] for row in rows)
    command = f"python benchmarks/ingest_rate.py {options.folder.name} --files {options.files}"
    facts = environment(command, embedder=embedder.name, device=device, dtype=dtype, note=options.note)
    result = {"environment": facts, "ratio": round(ratio, 3), "rows": rows}
    write_json(options.json, result)
    write_markdown(options.markdown, page(result))


if __name__ == "__main__":
    main()
