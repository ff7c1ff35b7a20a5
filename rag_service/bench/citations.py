"""`rag bench citations`: citations compared with quotations that people marked. Needs no model.

Items have passages in `context` and answers with marked quotations in `reference` (see `quotations`). `cite` and plain
n-gram matching are measured at the same thresholds, on all items and on both halves of them: ordered by the SHA-256 of
their ids, every second item belongs to the second half. The result holds figures, no text of the items.
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
"""Fewest tokens of a citation: PLD+'s best threshold (arXiv 2412.01447, table 10), and our default."""
PARTS = ("all", "first half", "second half")
NOTE = """\
Human answers without their marks, cited like a model's answer. Precision, recall and F1 count (visible) tokens that are
marked and cited, from whichever passage. A marked quotation has the *right passage* if more than half of its tokens are
cited to it; one that is not cited at all is wrong. `right` counts the quotations with at least as many tokens as the
threshold, below which nothing is cited; `right of all` counts all quotations; `right of found` counts those with a
cited token, by the majority of their cited tokens. `n-grams` is plain n-gram matching: the longest runs first, each
from the best-ranked passage.
"""


@dataclass(frozen=True, slots=True)
class _Item:
    id: str
    passages: tuple[str, ...]
    answers: tuple[MarkedAnswer, ...]


def main(argv: Sequence[str], program: str, folder_of: Callable[[str], Path]) -> int:
    """Run with command-line arguments; returns the exit status, 2 for unusable arguments or files.

    Args:
        folder_of: returns a model's folder by its name. `--model` also takes a folder that holds only a tokenizer.
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
    """The rows as a table, and the environment."""
    columns = ["tokenizer", "method", "items", "threshold", "precision", "recall", "F1", "right", "right of all"]
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
    lines = ["# Citations against marked quotations", "", NOTE, *table([*columns, "right of found"], body, left=3), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def _tokens(model: str, folder_of: Callable[[str], Path]) -> Tokens:
    folder = Path(model)
    return Tokens.load(folder if (folder / "tokenizer.json").is_file() else folder_of(model))


def _rows(
    tokenizer: str, tokens: Tokens, items: Sequence[_Item], thresholds: Sequence[int]
) -> Iterator[dict[str, object]]:
    for threshold in thresholds:
        for method, cited in (("citations", _cited), ("n-grams", _matched)):
            agreements = [total(_agreements(item, tokens, cited, threshold)) for item in items]
            for part, chosen in zip(PARTS, (agreements, agreements[::2], agreements[1::2]), strict=True):
                counts = total(chosen)
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
    """The copied citations of `cite`."""
    numbered = [CitedPassage("", str(n), str(n), 0, passage) for n, passage in enumerate(passages)]
    return [
        Quotation(c.answer_start, c.answer_end, int(c.chunk_id))
        for c in cite(answer, numbered, min_run=threshold)
        if c.kind == "copied"
    ]


def _matched(answer: Text, passages: Sequence[Text], threshold: int) -> list[Quotation]:
    """The runs of plain n-gram matching."""
    runs = plain_runs(answer.ids, [passage.ids for passage in passages], threshold)
    return [Quotation(answer.spans[start][0], answer.spans[end - 1][1], passage) for start, end, passage in runs]


def _read(file: Path) -> list[_Item]:
    """The items of a file, ordered by the SHA-256 of their ids."""
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
                f"line {number} of {file} is not an item with `id`, `context` (passages) and `reference` (answers with "
                f"quotations marked as `[ N text ]`): {error!r}"
            ) from error
        if not all(0 <= quotation.passage < len(item["context"]) for a in answers for quotation in a.quotations):
            raise BenchError(f"line {number} of {file} marks a passage that it does not have; passages count from 1")
    return sorted(items, key=lambda item: hashlib.sha256(item.id.encode()).hexdigest())


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
