"""Pack the texts that `auto`'s tables of next tokens start from (`decoder/drafters/learning/texts/`).

    python benchmarks/pack_texts.py --prompts prompts.jsonl \
        --categories oasst,self_instruct,german_passage \
        --answers qwen2.5-coder-1.5b=answers.jsonl smollm2-135m=smollm2_answers.npz \
        --apart-from data/*.jsonl dolly.jsonl

Prompts are training prompts, with their passages. Answers are recordings (`rag train distil`) or archives of answers
(`decoder/training/answers.py`) with the name of their model, whose tokenizer turns them into text. Texts with an
e-mail address are left out, and those that share ten words in a row with the items of `--apart-from`: benchmarks, and
prompts of other licences, which answers may quote.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

from transformers import AutoTokenizer

from decoder.drafters.learning.shipped_texts import TEXTS
from decoder.models import default_models_dir, resolve
from decoder.recording.prompts import load_items, read_fields
from decoder.training.answers import read_answers

SHARED = 10
"""Words in a row."""
ADDRESS = re.compile(r"\S@\S+\.\w")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=Path, nargs="*", default=[], help="JSONL files of training prompts")
    parser.add_argument("--categories", default="", help="categories of prompts, separated by commas (default: all)")
    parser.add_argument("--answers", nargs="*", default=[], metavar="MODEL=FILE", help="answers and their model")
    parser.add_argument("--models-dir", type=Path, default=default_models_dir())
    parser.add_argument("--apart-from", type=Path, nargs="*", default=[], help="JSONL files of items not to quote")
    parser.add_argument("--out", type=Path, default=TEXTS)
    options = parser.parse_args()
    known = {run for path in options.apart_from for text in texts_of(path) for run in runs(text)}
    texts: dict[str, None] = {}  # in order, each once
    if options.prompts:
        categories = [name for name in options.categories.split(",") if name]
        for item in load_items(options.prompts, categories=categories):
            texts.update(dict.fromkeys((*item.turns, *(item.passages or ()))))
    for named in options.answers:
        model, _, file = named.partition("=")
        texts.update(dict.fromkeys(answers(model, Path(file), options.models_dir)))
    stripped = (text.replace("\f", " ").strip() for text in texts)
    kept = [text for text in stripped if text and not ADDRESS.search(text) and known.isdisjoint(runs(text))]
    packed = lzma.compress("\f".join(kept).encode(), preset=9 | lzma.PRESET_EXTREME)
    draft = options.out.with_suffix(".new")
    draft.write_bytes(packed)
    draft.replace(options.out)
    print(f"{len(kept)} texts, {sum(map(len, kept))} characters, {len(packed)} bytes")


def texts_of(path: Path) -> Iterator[str]:
    """The questions, passages and reference answers of items."""
    for _, fields in read_fields(path):
        for name in ("turns", "context", "reference"):
            values = fields.get(name) or []
            yield from (value for value in ([values] if isinstance(values, str) else values) if isinstance(value, str))


def runs(text: str) -> set[int]:
    """Hashes of every ten words in a row."""
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[start : start + SHARED])) for start in range(len(words) - SHARED + 1)}


def answers(model: str, file: Path, models_dir: Path) -> Iterator[str]:
    """The answers of a file as text."""
    tokenizer = AutoTokenizer.from_pretrained(resolve(model, models_dir))
    for answer in read_answers([file], len(tokenizer), 1 << 20):
        yield tokenizer.decode(answer.tokens[answer.prompt :].tolist(), skip_special_tokens=True)


if __name__ == "__main__":
    main()
