"""`rag bench answers` from its options to its files: questions asked of a running service, judged, summed up."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decoder.bench.decode.run_file import RunFile, read_lines
from decoder.bench.results import write_json, write_markdown
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError
from rag_service.bench.answers import plot, report, support, yes_no
from rag_service.bench.answers.ask import ask_all
from rag_service.bench.answers.items import Material, load
from rag_service.bench.answers.outcomes import Judged, Outcome, Verdict, judged
from rag_service.bench.cli import exit_status, say
from rag_service.bench.stack import Stack
from rag_service.client import RagClient
from rag_service.prompting.template import Templates
from rag_service.settings import Settings, load_settings


def main(argv: Sequence[str], program: str) -> int:
    """Exit status: 0 done, 2 unusable arguments or files, 130 interrupted."""
    options = build_parser(program).parse_args(list(argv))
    options.line = shlex.join([*program.split(), *(Path(a).name if Path(a).is_absolute() else a for a in argv)])
    return exit_status(lambda: run(options, say))


def build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Measure whether answers are right, cited and honest, over HTTP with the service's defaults. A "
        "stack is started with RAG_MODEL and the other settings; --url measures one that runs.",
    )
    parser.add_argument("--data", type=Path, nargs="+", default=[], metavar="F", help="JSONL files of items")
    parser.add_argument(
        "--removed", type=Path, nargs="+", default=[], metavar="DIR", help="retrieval sets, asked without the document"
    )
    parser.add_argument("--half", choices=["choose", "report", "all"], default="all", help="half of the items")
    parser.add_argument("--limit", type=int, help="questions of a kind (default all)")
    parser.add_argument("--languages", nargs="+", default=[], help="of files with several languages (default all)")
    parser.add_argument("--model", help="target model (default RAG_MODEL)")
    parser.add_argument("--speculation", help="`off`, `auto` or a drafter's name")
    parser.add_argument("--url", help="a running service (its key in RAG_API_KEY) instead of a stack of its own")
    parser.add_argument("--against", type=Path, nargs="+", default=[], metavar="RUN", help="results to compare with")
    parser.add_argument(
        "--calibrate", type=Path, metavar="OUT", help="also fit a calibration for RAG_ANSWERS__CALIBRATION"
    )
    parser.add_argument("--plot", type=Path, metavar="OUT.svg", help="also draw how good `support` is")
    parser.add_argument("--note", help="remark for the result, such as what else ran on the machine")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    parser.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    return parser


def run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Ask what is missing, and write the result of all. Raises BenchError, InvalidSettings, RagError."""
    if options.plot:
        plot.require_matplotlib()
    settings = load_settings(**({"model": options.model} if options.model else {}))
    material = load(options.data, options.removed, half=options.half, limit=options.limit, categories=options.languages)
    model, dtype = answering(settings)
    facts: dict[str, object] = {
        "model": model,
        "dtype": dtype,
        "half": options.half,
        "speculation": options.speculation,
        "prompt": settings.prompt.texts or None,
    }
    requests = {"speculation": options.speculation} if options.speculation else {}
    file = RunFile(answers_path(options.json), {**facts, "material": material.digest})
    done = {line["id"] for line in file.read()}
    interrupted = False
    if len(done) < len(material.questions):
        try:
            if options.url:
                with RagClient(options.url) as client:
                    ask_all(client, material, done, lambda outcome: file.add(asdict(outcome)), say, requests)
            else:
                with (
                    tempfile.TemporaryDirectory(prefix="rag-bench-") as data_dir,
                    Stack(Path(data_dir), settings, say) as stack,
                ):
                    client = stack.client(reuse=True)
                    ask_all(client, material, done, lambda outcome: file.add(asdict(outcome)), say, requests)
        except KeyboardInterrupt:
            interrupted = True
            say("stopped; run the same command again to continue")
    outcomes = [Outcome(**line) for line in file.read()]
    if not outcomes:
        return 130
    templates = Templates(settings.prompt.folder, settings.prompt.texts, settings.prompt.language)
    texts = templates.instructions()
    questions = {question.id: question for question in material.questions}
    entries = [(questions[o.id], o, judged(questions[o.id], o, texts)) for o in outcomes]
    result: dict[str, Any] = {
        "environment": environment(options.line, **facts, note=options.note),
        "rows": report.rows(entries),
        "yes_no": yes_no.summary(entries),
        "support": support.summary(entries),
        "against": {path.stem: report.comparison(entries, _other(path, material, texts)) for path in options.against},
        "answers": [
            {"id": q.id, "kind": q.kind, "question": q.turns[-1], "answer": o.answer, **asdict(v)}
            for q, o, v in entries
        ],
    }
    if options.calibrate:
        _calibrate(options.calibrate, entries, model, dtype, templates.digest)
    if options.plot:
        plot.draw(options.plot, entries)
    write_json(options.json, result)
    write_markdown(options.markdown, report.markdown(result))
    say(report.markdown(result))
    say(f"wrote {options.json}; the answers are in {answers_path(options.json)}")
    return 130 if interrupted else 0


def answering(settings: Settings) -> tuple[str, str]:
    """What answers, as calibrations name it: the model and its number format, which of a model server is `upstream`."""
    if settings.endpoints:
        return settings.endpoints[0].model, "upstream"
    return Path(settings.model).name, settings.number_format


def _calibrate(path: Path, entries: Sequence[Judged], model: str, dtype: str, prompt: str) -> None:
    try:
        support.calibration(entries, model, dtype, prompt).save(path)
    except ValueError as error:
        raise BenchError(str(error)) from None


def answers_path(result: Path) -> Path:
    """The file with the answers of a result."""
    return result.with_suffix(".answers.jsonl")


def _other(result: Path, material: Material, texts: Sequence[str]) -> dict[str, Verdict]:
    """The verdicts of another run on the same questions, judged by the rules of today."""
    path = answers_path(result)
    if not path.is_file():
        raise BenchError(f"there are no answers of another run at {path}")
    questions = {question.id: question for question in material.questions}
    outcomes = [Outcome(**line) for line in read_lines(path)[1:]]
    return {o.id: judged(questions[o.id], o, texts) for o in outcomes if o.id in questions}
