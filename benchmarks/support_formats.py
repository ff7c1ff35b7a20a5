"""Compare `support` between number formats of one model: same questions, same passages, same prompts.

    python benchmarks/support_formats.py answer --data squad2.jsonl --half report --model qwen2.5-coder-1.5b \
        --dtype float32 --work build/formats
    python benchmarks/support_formats.py compare --work build/formats --dtypes float32 int8 --json OUT --markdown OUT.md

`answer` builds prompts as the service does and stores each answer with its signals; the same command goes on where it
was stopped. It asks eight questions on each article, with the passages that the search gives for one of them, so that
the model reads these once; by at most half of the questions they are answered. Answers are decoded without
speculation, those of one article together. `compare` pairs the questions that two formats have, and computes the
chances of both by the calibration of the reference format.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from decoder import load_engine
from decoder.bench.decode.run_file import RunFile, read_lines
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from rag_service.access.principal import Principal
from rag_service.answering.models import model_folder, window_of
from rag_service.bench.answers.ask import SEED
from rag_service.bench.answers.items import Material, Question, load
from rag_service.bench.answers.judge import abstains, contains, merely_passage
from rag_service.bench.answers.statistics import auroc, auroc_interval
from rag_service.contract.schemas import QueryRequest
from rag_service.prompting import questions
from rag_service.prompting.checking import Support
from rag_service.prompting.generation_options import Repetitions
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.template import Templates
from rag_service.settings import Settings, load_settings
from retriever import Library, SearchResult, SourceDocument, make_embedder
from retriever.languages import language_of
from workers.answers.assembly import assemble
from workers.broker.messages import GenerateJob
from workers.support.calibration import Calibration, find
from workers.tokens.text_stream import TextStream
from workers.tokens.tokenizer import Tokens
from workers.worker.generation import sampling_params
from workers.worker.kv_store import KvStore, Owner, answer_rows
from workers.worker.runtime import GenerationHandle, Runtime
from workers.worker.supporter import Supporter

INPUTS = ("readout", "margin", "evidence", "covered")
CHANCES = ("support", "answerable")
ROWS = 2**29
"""Bytes of rows that are kept: those of the passages of one group."""
WARNING = 0.2
"""Answers with less `support` have a warning (the default of RAG_ANSWERS__SUPPORT_THRESHOLD)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    answer = commands.add_parser("answer", help="answer the questions in one number format")
    answer.add_argument("--data", type=Path, nargs="+", default=[])
    answer.add_argument("--half", choices=["choose", "report", "all"], default="all")
    answer.add_argument("--group", type=int, default=8, help="questions on an article")
    answer.add_argument("--model", required=True)
    answer.add_argument("--dtype", required=True)
    answer.add_argument("--work", type=Path, required=True, help="folder for collections and answers")
    compare = commands.add_parser("compare", help="compare the answers of several number formats")
    compare.add_argument("--work", type=Path, required=True)
    compare.add_argument("--reference", default="bfloat16", help="the format that the calibration was fitted in")
    compare.add_argument("--dtypes", nargs="+", required=True)
    compare.add_argument("--note", help="remark for the result")
    compare.add_argument("--json", type=Path, required=True)
    compare.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    {"answer": answer_all, "compare": compare_all}[options.command](options)


def answer_all(options: argparse.Namespace) -> None:
    """Answer the groups that the format's file lacks."""
    settings = load_settings(model=options.model, data_dir=options.work)
    material = load(options.data, half=options.half)
    name = Path(options.model).name
    words = (Path(word).name if Path(word).is_absolute() else word for word in sys.argv)
    facts = environment(shlex.join(["python", *words]), model=name, dtype=options.dtype, half=options.half)
    asked = {"model": name, "half": options.half, "material": material.digest, "group": options.group}
    file = RunFile(options.work / f"{options.dtype}.jsonl", {**asked, "dtype": options.dtype})
    done = {one["id"] for one in file.read() if "id" in one}
    file.add({"environment": facts})
    tokens = Tokens.load(model_folder(settings.model, settings.models_folder))
    groups = list(grouped(settings, material, tokens, options.group))
    engine = load_engine(
        settings.model, drafter="plain", dtype=options.dtype, models_dir=settings.models_folder, state_dir=options.work
    )
    runtime = Runtime(engine, tokens, KvStore(ROWS))
    supporter = Supporter(tokens, name, options.dtype)
    for number, group in enumerate(groups, 1):
        if done >= {question.id for question, _ in group}:
            continue
        first, *others = group
        for part in ([first], others):  # the first one leaves the rows of the passages for the others
            for question, job, handle in [(q, j, submitted(j, tokens, runtime, supporter)) for q, j in part]:
                line = answered(question, job, handle, runtime, supporter, tokens)
                file.add(line)
                print(f"{number}/{len(groups)} {line['answer']!r:.100}", flush=True)
    runtime.close(5)


def grouped(
    settings: Settings, material: Material, tokens: Tokens, size: int
) -> Iterator[list[tuple[Question, GenerateJob]]]:
    """`size` questions on each article, with their jobs; all questions of a group have the same passages.

    The passages are those that the search gives for one of the questions: the one whose passages answer most others.
    Questions that they answer come first, up to half of the group. A question keeps the margin of its own search.
    """
    folder = partial(model_folder, models_folder=settings.models_folder)
    window = window_of(folder(settings.model))
    embedder = make_embedder(settings.embedding_model, folder, *settings.embedding_place, *settings.embedding_prefixes)
    templates = Templates(settings.prompt.folder, settings.prompt.texts, settings.prompt.language)
    titles = {document.id: document.title for one in material.collections.values() for document in one}
    articles: dict[str, list[tuple[Question, SearchResult]]] = {}
    with closing(Library(settings.data_dir, embedder)) as library:
        for name, documents in material.collections.items():
            library.create(name, exist_ok=True).ingest(
                [SourceDocument(document_id=d.id, title=d.title, text=d.text) for d in documents]
            )
        for question in material.questions:
            asked = question.turns[-1]
            language = language_of(asked)
            found = library.find([question.collection], asked, settings.retrieval.top_k, "hybrid", language=language)
            article = titles[found.passages[0].document_id]
            articles.setdefault(article, []).append((question, found))
    for asked_of in articles.values():
        if len(asked_of) < size:
            continue

        def answers(lead: SearchResult, asked_of: Sequence[tuple[Question, SearchResult]] = asked_of) -> list[bool]:
            shown = {passage.document_id for passage in lead.passages}
            return [question.gold in shown for question, _ in asked_of]

        lead = max((found for _, found in asked_of), key=lambda found: sum(answers(found)))
        passages = [asdict(passage) for passage in lead.passages]
        told = [q for q, yes in zip(asked_of, answers(lead), strict=True) if yes]
        others = [(replace(q, references=()), f) for (q, f) in asked_of if (q, f) not in told]
        half = min(size // 2, len(told))
        group = [*told[:half], *others[: size - half]]
        yield [
            (question, job_of(question, found, passages, settings, templates, tokens, window))
            for question, found in group
        ]


def job_of(
    question: Question,
    found: SearchResult,
    passages: list[dict[str, Any]],
    settings: Settings,
    templates: Templates,
    tokens: Tokens,
    window: int,
) -> GenerateJob:
    """The job of a first question, as `rag_service/answering/pipeline.py` makes it."""
    asked, own = question.turns[-1], settings.answers
    template = templates.of(asked)
    signals = {} if found.margin is None else {"margin": found.margin}
    return questions.job(
        QueryRequest(question=asked, collection=question.collection, seed=SEED),
        Retrieved(asked, passages, signals=signals),
        [],
        tokens,
        principal=Principal(),
        session_id="",
        answer_id=question.id,
        collection=question.collection,
        window=window,
        max_tokens=own.max_tokens,
        template=template,
        grounded=True,
        drafter="plain",
        repetitions=Repetitions(
            own.repetition_length,
            own.repetition_times,
            own.passages_repetition_length,
            own.passages_repetition_times,
        ),
        support=Support(
            template, language_of(asked), templates.digest_of(template), own.abstain, own.support_threshold
        ),
    )


def submitted(job: GenerateJob, tokens: Tokens, runtime: Runtime, supporter: Supporter) -> GenerationHandle:
    """A running answer, as a worker starts it (`workers/worker/generation.py`)."""
    prompt, parts = assemble(tokens, job.segments)
    params, owner = sampling_params(job.sampling, tokens), Owner(job.owner, answer_rows(job.answer_id))
    return runtime.submit(prompt, params, owner=owner, segments=parts, drafter="plain", read=supporter.reads(job))


def answered(
    question: Question,
    job: GenerateJob,
    handle: GenerationHandle,
    runtime: Runtime,
    supporter: Supporter,
    tokens: Tokens,
) -> dict[str, Any]:
    """A question's answer, judged, with the signals of its support."""
    text = TextStream(tokens, job.sampling.stop)
    with closing(handle):
        answer = "".join(text.push(token)[0] for step in handle for token in step.tokens) + text.flush()
    support = supporter.support(job, answer, lambda _: [], runtime, lambda: False, None, handle.states)
    assert job.checking is not None, "no passage is in the prompt"
    assert support is not None
    right = (
        contains(answer, question.references)
        and not abstains(answer)
        and len(answer.split()) <= question.most_words
        and not merely_passage(answer, [str(passage["text"]) for passage in job.passages])
    )
    return {
        "id": question.id,
        "answerable": question.answerable,
        "answer": answer,
        "right": right,
        "signals": support.signals,
        "prompt": job.checking.prompt,
        "language": job.checking.language,
    }


@dataclass(frozen=True, slots=True)
class Pair:
    """One question's lines, of the reference format and of another one, and the calibration of the former."""

    lines: tuple[Mapping[str, Any], Mapping[str, Any]]
    calibration: Calibration

    @property
    def equal(self) -> bool:
        """Whether both answers are the same text."""
        return bool(self.lines[0]["answer"] == self.lines[1]["answer"])

    def value(self, name: str, side: int) -> float:
        """An input, or a chance without rounding."""
        signals: Mapping[str, float] = self.lines[side]["signals"]
        if name in INPUTS:
            return signals[name]
        return (self.calibration.support if name == "support" else self.calibration.answerable).chance(signals)

    def warned(self, name: str, side: int) -> bool:
        """Whether the answer has a warning by this chance."""
        return self.value(name, side) < (WARNING if name == "support" else self.calibration.threshold)


def compare_all(options: argparse.Namespace) -> None:
    """Pair each format with the reference and write the result."""
    files = {dtype: read_lines(options.work / f"{dtype}.jsonl") for dtype in (options.reference, *options.dtypes)}
    asked, *reference = files[options.reference]
    result: dict[str, Any] = {"environment": {}, "formats": {}, "answers": {}, "note": options.note}
    for dtype, (settings, *lines) in files.items():
        if {**settings["settings"], "dtype": ""} != {**asked["settings"], "dtype": ""}:
            sys.exit(f"{dtype} was asked other questions than {options.reference}")
        result["environment"][dtype] = next(one["environment"] for one in lines if "environment" in one)
        result["answers"][dtype] = [line for line in lines if "id" in line]
        if dtype != options.reference:
            paired = pairs(reference, lines, asked["settings"]["model"], options.reference)
            result["formats"][dtype] = summary(paired)
    write_json(options.json, result)
    write_markdown(options.markdown, markdown(result, options.reference))
    print(markdown(result, options.reference))


def pairs(
    reference: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], model: str, dtype: str
) -> list[Pair]:
    """The questions that both have. Raises ValueError if the reference has no calibration."""
    later = {line["id"]: line for line in other if "id" in line}
    paired = []
    for line in reference:
        if line.get("id") in later:
            calibration, holds = find(model, dtype, line["prompt"], line["language"])
            if not holds:
                raise ValueError(f"there is no calibration of {model} in {dtype} for {line['language']!r}")
            paired.append(Pair((line, later[line["id"]]), calibration))
    return paired


def summary(paired: Sequence[Pair]) -> dict[str, Any]:
    """What differs: answers, inputs, chances and decisions."""
    equal = [pair for pair in paired if pair.equal]
    return {
        "questions": len(paired),
        "equal_answers": len(equal),
        "differences": {
            which: {name: spread(chosen, name) for name in (*INPUTS, *CHANCES)}
            for which, chosen in (("equal answers", equal), ("all answers", paired))
        },
        "decisions": {name: decisions(paired, name) for name in CHANCES},
        "separation": [separation(paired, side) for side in (0, 1)],
    }


def spread(paired: Sequence[Pair], name: str) -> dict[str, float]:
    """Median, 95th percentile and maximum of the absolute differences, and the mean of the signed ones."""
    signed = np.array([pair.value(name, 1) - pair.value(name, 0) for pair in paired] or [np.nan])
    median, p95, most = np.percentile(np.abs(signed), [50, 95, 100])
    figures = {"median": median, "p95": p95, "max": most, "mean": signed.mean()}
    return {key: round(float(figure), 4) for key, figure in figures.items()}


def decisions(paired: Sequence[Pair], name: str) -> dict[str, Any]:
    """How many answers have the warning in each format, and which have it in one only."""
    changed = [pair for pair in paired if pair.warned(name, 0) != pair.warned(name, 1)]
    return {
        "warned": [sum(pair.warned(name, side) for pair in paired) for side in (0, 1)],
        "changed": [
            {"id": pair.lines[0]["id"], "equal": pair.equal, name: [pair.value(name, side) for side in (0, 1)]}
            for pair in changed
        ],
    }


def separation(paired: Sequence[Pair], side: int) -> dict[str, Any]:
    """AUROC of `support`, right answers against all others, and how many of both have a warning."""
    split = [[pair for pair in paired if pair.lines[side]["right"] is wanted] for wanted in (True, False)]
    right, others = ([pair.value("support", side) for pair in some] for some in split)
    warned = [sum(any(pair.warned(name, side) for name in CHANCES) for pair in some) for some in split]
    return {
        "answers": [len(some) for some in split],
        "warned": warned,
        "auroc": auroc(right, others),
        "interval": auroc_interval(right, others),
    }


def markdown(result: Mapping[str, Any], reference: str) -> str:
    """The result as tables."""
    lines = [
        f"# `support` in other number formats than {reference}",
        "",
        f"The same questions, passages and prompts, answered in {reference} and in another format of the same weights.",
        "The questions of one article have the same passages, which answer at most half of them. Both chances are",
        f"computed with the calibration that was fitted in {reference}; differences are absolute ones.",
        "",
    ]
    for dtype, one in result["formats"].items():
        lines += [f"## {dtype}", "", f"{one['equal_answers']} of {one['questions']} answers are the same text.", ""]
        rows = [
            [f"`{name}`", which, *(f"{value[column]:.4f}" for column in ("median", "p95", "max", "mean"))]
            for which, values in one["differences"].items()
            for name, value in values.items()
        ]
        head = ["difference of", "on", "median", "95th percentile", "most", "mean, with its sign"]
        lines += [*table(head, rows, 2), ""]
        rows = [
            [f"`{name}`", *map(str, value["warned"]), str(len(value["changed"]))]
            for name, value in one["decisions"].items()
        ]
        lines += [*table(["warned by", reference, dtype, "in one only"], rows, 1), ""]
        rows = []
        for name, value in zip((reference, dtype), one["separation"], strict=True):
            shares = [f"{warned} of {n}" for warned, n in zip(value["warned"], value["answers"], strict=True)]
            area = (
                "–"
                if value["auroc"] is None
                else "{:.3f} ({:.3f} to {:.3f})".format(value["auroc"], *value["interval"])
            )
            rows.append([name, *shares, area])
        head = ["answers in", "right ones warned", "others warned", "AUROC of `support`, right against others"]
        lines += [*table(head, rows, 1), ""]
    for dtype, facts in result["environment"].items():
        lines += [line.replace("## Environment", f"## Environment of {dtype}") for line in environment_lines(facts)]
    if result["note"]:
        lines += [f"Note: {result['note']}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
