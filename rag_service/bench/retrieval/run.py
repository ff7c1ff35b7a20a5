"""`rag bench retrieval` from its options to its files: sets asked in every mode, and times of large collections."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from decoder.bench.decode.run_file import RunFile
from decoder.bench.results import write_json, write_markdown
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError
from rag_service.answering.models import reranking_of
from rag_service.bench.cli import exit_status, say
from rag_service.bench.retrieval import plot, quality, report, scale, synthetic
from rag_service.bench.retrieval.embedders import Remembering, WordSums
from rag_service.bench.retrieval.sets import RetrievalSet, load
from rag_service.settings import load_settings
from retriever import Library, Reranking, SearchMode, make_embedder
from retriever.embedding.embedder import Embedder
from retriever.store_url import open_stores


def main(argv: Sequence[str], program: str, model_folder: Callable[[str], Path]) -> int:
    """Exit status: 0 done, 2 unusable arguments or files, 130 interrupted. `model_folder`: of a model's name."""
    options = build_parser(program).parse_args(list(argv))
    shown = ["URL" if one == options.store_url else Path(one).name if Path(one).is_absolute() else one for one in argv]
    options.line = shlex.join([*program.split(), *shown])
    return exit_status(lambda: run(options, model_folder, say))


def build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Measure whether the right document is retrieved from sets with judgements, in every mode; with "
        "--scale, how long searches and changes take in collections of many chunks.",
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR", help="retrieval sets")
    parser.add_argument("--split", default="test", help="which queries: `test`, or NAME of queries_NAME.jsonl")
    parser.add_argument("--half", choices=["choose", "report", "all"], default="all", help="half of the queries")
    parser.add_argument("--limit", type=int, help="queries a set (default all)")
    parser.add_argument("--modes", nargs="+", choices=get_args(SearchMode), default=["dense", "lexical", "hybrid"])
    parser.add_argument(
        "--scale",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="measure times in collections of so many chunks instead, made of the sets' sentences",
    )
    parser.add_argument("--embedder", help="embedding model (default RAG_EMBEDDING_MODEL)")
    parser.add_argument(
        "--reranker",
        metavar="NAME",
        help="also ask hybrid with this reranker, without a budget (it scores RAG_RERANKER_CANDIDATES passages)",
    )
    parser.add_argument(
        "--store-url", metavar="URL", help="postgresql://…: collections of an empty database instead of a folder"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the collections here, for another run")
    parser.add_argument("--note", help="remark for the result, such as what else ran on the machine")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    parser.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    parser.add_argument("--plot", type=Path, metavar="OUT.svg", help="also draw them")
    return parser


def run(options: argparse.Namespace, model_folder: Callable[[str], Path], say: Callable[[str], None]) -> int:
    """Measure what is missing, and write the result of all. Raises BenchError, InvalidSettings, RetrieverError."""
    if options.plot:
        plot.require_matplotlib()
    chosen = {"embedding_model": options.embedder, "reranker": options.reranker}
    settings = load_settings(reranker_budget_ms=0, **{name: value for name, value in chosen.items() if value})
    sets = [load(folder, options.split, options.half, options.limit) for folder in options.data]
    if len({one.name for one in sets}) < len(sets):
        raise BenchError("two of the sets have the same name; rename the folder of one")
    embedder = make_embedder(
        settings.embedding_model, model_folder, *settings.embedding_place, *settings.embedding_prefixes
    )
    with _folder(options.work) as folder:
        if options.scale:
            found = _scale(options, sets, embedder, folder)
        else:
            reranking = reranking_of(settings, model_folder) if options.reranker else None
            found = _quality(options, sets, embedder, folder, reranking)
    store = "PostgreSQL" if options.store_url else "SQLite and FAISS"
    facts = {
        "embedder": embedder.name,
        "store": store,
        "split": options.split,
        "half": options.half,
        "note": options.note,
    }
    result = {"environment": environment(options.line, **facts), **found}
    write_json(options.json, result)
    write_markdown(options.markdown, report.markdown(result))
    if options.plot:
        plot.draw(options.plot, result)
    say(report.markdown(result))
    say(f"wrote {options.json}")
    return 0


def _quality(
    options: argparse.Namespace,
    sets: Sequence[RetrievalSet],
    embedder: Embedder,
    folder: Path,
    reranking: Reranking | None = None,
) -> Any:
    """Each query's measures are kept beside the result; a run that was stopped asks the others."""
    material = {one.name: one.digest for one in sets}
    file = RunFile(options.json.with_suffix(".queries.jsonl"), {"embedder": embedder.name, "sets": material})
    done = {(line["set"], line["query"], line["mode"]) for line in file.read()}
    remembering = Remembering(embedder)
    library = _library(options.store_url, folder, remembering)
    reranked = _library(options.store_url, folder, remembering, reranking)
    modes = list(options.modes)
    reread = None if reranking is None else report.reranked_by(reranking.reranker.name, reranking.candidates)
    with contextlib.closing(library), contextlib.closing(reranked):
        for one in sets:
            names = [*modes, reread] if reread else modes
            wanted = {mode: [q for q in one.queries if (one.name, q.id, mode) not in done] for mode in names}
            if not any(wanted.values()):
                continue
            collection = quality.ingested(library, one, say)
            for mode in modes:
                quality.ask(collection, wanted[mode], [mode], file.add)
            if reread:
                quality.ask(reranked.collection(one.name), wanted[reread], ["hybrid"], file.add, reread)
            say(f"{one.name}: {len(one.queries)} queries asked")
    asked = {(one.name, query.id) for one in sets for query in one.queries}
    shown = {*modes, reread}
    lines = [line for line in file.read() if (line["set"], line["query"]) in asked and line["mode"] in shown]
    gained = report.gained(lines, reread) if reread else []
    return {"rows": report.rows(lines), "differences": report.differences(lines), "reranked": gained}


def _scale(options: argparse.Namespace, sets: Sequence[RetrievalSet], embedder: Embedder, folder: Path) -> Any:
    questions = [query.text for one in sets for query in one.queries]
    questions = questions[:: max(1, len(questions) // (options.limit or 100))]
    pool = synthetic.sentences(sets)
    opened = partial(_library, options.store_url, folder, Remembering(WordSums()))
    with contextlib.closing(opened()) as library:
        sizes = [scale.measure(opened, library, count, pool, questions, say) for count in sorted(options.scale)]
    for size, count in zip(sizes, sorted(options.scale), strict=True):
        if not options.store_url:
            stored = scale.size_on_disk(folder / "collections" / f"chunks-{count}")
            size["facts"]["disk, MiB"] = round(stored / 2**20)
        size["rows"].append(scale.embedding(embedder.embed_query, questions[:50]))
    return {"scale": sizes}


def _library(store_url: str | None, folder: Path, embedder: Embedder, reranking: Reranking | None = None) -> Library:
    return Library(folder, embedder, stores=open_stores(store_url, folder), reranking=reranking)


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder:
        yield Path(folder)
