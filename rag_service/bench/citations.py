"""`rag bench citations`: how well citations find what people marked as quoted, and in which passage. Needs no model.

Items have passages in `context` and answers with marks in `reference` (see `quotations`). Beside `cite`, plain n-gram
matching at the same threshold. Every row is there for all items and for both halves of them: in the order of their
ids' SHA-256, every second one belongs to the second half.

Knows tokenizers, `cite` and what is to be measured; writes figures and no text of the items.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.bench.results import environment_lines, table, write_json
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError
from rag_service.bench.plain_ngrams import plain_runs
from rag_service.bench.quotations import Agreement, MarkedAnswer, Quotation, agreement, read_marks, total
from rag_service.citing.citations import CitedPassage, Text, cite
from rag_service.citing.text_spans import answer_text, passage_text
from workers.tokens.tokenizer import Tokens

THRESHOLDS = (2, 8)
"""Fewest tokens of what is cited: PLD+'s best threshold (arXiv 2412.01447, table 10), and our default."""
PARTS = ("all", "first half", "second half")
NOTE = """\
Human answers with their marks taken out, cited as a model's answer would be. Precision, recall and F1 count tokens
(visible ones) that are marked and cited, from whichever passage. A marked quotation has the *right passage* if more
than half of its tokens are cited to it; one that is not cited at all is wrong. `right` counts the quotations that have
at least as many tokens as the threshold, below which nothing is cited; `right of all` counts every one; `right of
found` those with a cited token, by most of their cited tokens. `n-grams` is plain n-gram matching: the longest runs
first, each from the best-ranked passage.
"""


@dataclass(frozen=True, slots=True)
class _Item:
    id: str
    passages: tuple[str, ...]
    answers: tuple[MarkedAnswer, ...]


def main(argv: Sequence[str], program: str, folder_of: Callable[[str], Path]) -> int:
    """Run with command-line arguments; returns the exit status, 2 for arguments or files that cannot be used.

    Args:
        folder_of: a model's folder by its name. A folder with a tokenizer alone will do as well.
    """
    parser = argparse.ArgumentParser(prog=program, description="Measure citations against marked quotations.")
    parser.add_argument("--data", type=Path, required=True, metavar="F", help="JSONL file of items with marked answers")
    parser.add_argument("--model", nargs="+", default=["smollm2-135m"], help="models whose tokenizers are used")
    parser.add_argument("--min-run", type=int, nargs="+", default=THRESHOLDS, metavar="N", help="default 2 8")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file to write")
    parser.add_argument("--markdown", type=Path, metavar="OUT.md", help="also write tables")
    options = parser.parse_args(list(argv))
    line = shlex.join([*program.split(), *(Path(a).name if Path(a).is_absolute() else a for a in argv)])
    try:
        items = _read(options.data)
        rows = [
            row
            for model in options.model
            for row in _rows(Path(model).name, _tokens(model, folder_of), items, options.min_run)
        ]
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    result = {"environment": environment(line), "rows": rows}
    write_json(options.json, result)
    if options.markdown:
        options.markdown.write_text(markdown(result), encoding="utf-8")
    return 0


def markdown(result: Mapping[str, Any]) -> str:
    """The rows as a table, and what they were measured on."""
    head = ["tokenizer", "method", "items", "threshold", "precision", "recall", "F1", "right", "right of all"]
    body = [
        [
            *(row["tokenizer"], row["method"], row["part"], str(row["threshold"])),
            *(f"{row[name]:.4f}" for name in ("precision", "recall", "f1")),
            f"{row['right']:.4f} ({row['counts']['long_right']}/{row['counts']['long']})",
            f"{row['right_of_all']:.4f}",
            f"{row['right_of_found']:.4f}",
        ]
        for row in result["rows"]
    ]
    lines = ["# Citations against marked quotations", "", NOTE, *table([*head, "right of found"], body, left=3), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def _tokens(model: str, folder_of: Callable[[str], Path]) -> Tokens:
    here = Path(model)
    return Tokens.load(here if (here / "tokenizer.json").is_file() else folder_of(model))


def _rows(
    tokenizer: str, tokens: Tokens, items: Sequence[_Item], thresholds: Sequence[int]
) -> Iterator[dict[str, object]]:
    for threshold in thresholds:
        for method, cited in (("citations", _cited), ("n-grams", _matched)):
            found = [total(_agreements(item, tokens, cited, threshold)) for item in items]
            for part, some in zip(PARTS, (found, found[::2], found[1::2]), strict=True):
                counts = total(some)
                yield {
                    "tokenizer": tokenizer,
                    "method": method,
                    "part": part,
                    "threshold": threshold,
                    "precision": round(counts.precision, 4),
                    "recall": round(counts.recall, 4),
                    "f1": round(counts.f1, 4),
                    "right": _share(counts.long_right, counts.long),
                    "right_of_all": _share(counts.right, counts.quotations),
                    "right_of_found": _share(counts.right_of_found, counts.found),
                    "counts": asdict(counts),
                }


def _agreements(
    item: _Item, tokens: Tokens, cited: Callable[[Text, Sequence[Text], int], list[Quotation]], threshold: int
) -> Iterator[Agreement]:
    passages = [passage_text(passage, tokens) for passage in item.passages]
    for answer in item.answers:
        text = answer_text(tokens.encode_content(answer.text).ids, answer.text, tokens)
        yield agreement(answer, text.spans, cited(text, passages, threshold), threshold)


def _cited(answer: Text, passages: Sequence[Text], threshold: int) -> list[Quotation]:
    """What `cite` calls copied."""
    numbered = [CitedPassage(str(n), str(n), 0, passage) for n, passage in enumerate(passages)]
    return [
        Quotation(c.answer_start, c.answer_end, int(c.chunk_id))
        for c in cite(answer, numbered, min_run=threshold)
        if c.kind == "copied"
    ]


def _matched(answer: Text, passages: Sequence[Text], threshold: int) -> list[Quotation]:
    """What plain n-gram matching finds."""
    runs = plain_runs(answer.ids, [passage.ids for passage in passages], threshold)
    return [Quotation(answer.spans[start][0], answer.spans[end - 1][1], passage) for start, end, passage in runs]


def _read(file: Path) -> list[_Item]:
    """The file's items, in the order of their ids' SHA-256."""
    items: list[_Item] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            answers = tuple(map(read_marks, item["reference"]))
            items.append(_Item(item["id"], tuple(item["context"]), answers))
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(
                f"line {number} of {file} is no item with `id`, `context` (passages) and `reference` (answers with "
                f"quotations marked as `[ N text ]`): {error!r}"
            ) from error
        if not all(0 <= quotation.passage < len(item["context"]) for a in answers for quotation in a.quotations):
            raise BenchError(f"line {number} of {file} marks a passage that it does not have; count passages from 1")
    return sorted(items, key=lambda item: hashlib.sha256(item.id.encode()).hexdigest())


def _share(some: int, of: int) -> float:
    return round(some / of, 4) if of else 0.0
