"""`rag models heads`: finds a model's induction heads with prompts whose answers copy, and saves them with the model.

Knows chat templates, texts and the model's folder; the search itself is `decoder.induction_heads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from decoder import induction_heads
from decoder.errors import UnsupportedModel
from decoder.induction_heads import FILE, InductionHeads
from decoder.load import load_engine
from decoder.models import default_models_dir, resolve
from decoder.recording.chat import Chat
from decoder.recording.copy_texts import REPEAT, TEXTS
from decoder.recording.prompts import BenchError, Item, load_items, spread

MAX_TOKENS = 128
"""Most tokens of an answer; the paper gives no number."""

Progress = Callable[[int, int, int], None]
"""(answered prompts, all prompts, examined copied tokens)."""


def find_heads(
    model: str,
    *,
    data: Path | None = None,
    out: Path | None = None,
    models_dir: Path | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    limit: int | None = None,
    progress: Progress = lambda answered, prompts, tokens: None,
) -> tuple[Path, InductionHeads]:
    """Find a model's induction heads and write them to a file.

    Args:
        model: a name, folder or hub id.
        data: JSONL of `{"text": ...}`, texts to repeat, or of benchmark items, whose first messages are answered.
            Default: built-in texts.
        out: the file. Default: `induction_heads.json` in the model's folder, where engines look for it.
        limit: most prompts, spread evenly over the data.

    Returns:
        the file and its content.

    Raises:
        ValueError: the model, data or dtype cannot be used, or there is no such head; the message says what to do.
        PullFailed: a hub id could not be downloaded.
        OSError: the file cannot be written.
    """
    if limit is not None and limit < 1:
        raise BenchError(f"the limit must be at least 1 prompt, got {limit}")
    items = read_items(data) if data else [_repeat(text, number) for number, text in enumerate(TEXTS)]
    folder = resolve(model, models_dir or default_models_dir())
    chat = Chat.load(folder)
    try:
        engine = load_engine(
            model, drafter="plain", dtype=dtype, device=device, models_dir=models_dir, induction_heads=False
        )
    except UnsupportedModel as error:
        raise BenchError(str(error)) from error
    prompts = [chat.prompt_ids(item, []) for item in spread(items)]
    prompts = [ids for ids in prompts if len(ids) + MAX_TOKENS <= engine.target.max_positions][:limit]
    if not prompts:
        raise BenchError(f"no prompt fits the model's window of {engine.target.max_positions}; give shorter texts")

    def say(answered: int, tokens: int) -> None:
        progress(answered, len(prompts), tokens)

    heads = induction_heads.find_heads(engine, prompts, Path(model).name, max_tokens=MAX_TOKENS, progress=say)
    path = out or folder / FILE
    induction_heads.save(heads, path)
    return path, heads


def read_items(path: Path) -> Sequence[Item]:
    """Texts or benchmark items of a JSONL file; its first line decides which.

    Raises BenchError if the file is missing or holds neither.
    """
    if not path.is_file():
        raise BenchError(f"there is no file {path}; give JSONL of texts or of benchmark items")
    lines = [(n, line) for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if line.strip()]
    if not lines or _text(lines[0][1]) is None:
        return load_items([path])
    items = []
    for number, line in lines:
        text = _text(line)
        if text is None:
            raise BenchError(f'{path.name}, line {number} has no text; each line must be {{"text": "…"}}')
        items.append(_repeat(text, number))
    return items


def _text(line: str) -> str | None:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError:
        return None
    text = fields.get("text") if isinstance(fields, dict) else None
    return text if isinstance(text, str) and text else None


def _repeat(text: str, number: int) -> Item:
    return Item(str(number), "repeat", "repeat", (REPEAT.format(text=text),))
