"""Answers to learn from: a model's own tokens after prompts. Reads recordings (`rag bench record`, `rag train distil`)
and packed archives.

An archive (.npz) has `tokens` (prompt and answer of each sequence, one after the other), `offsets` (n + 1) and
`prompt_lengths` (n). Of several answers to equal prompts the first one counts.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.recording.prompts import BenchError
from decoder.recording.record import read_recordings

T = TypeVar("T")
HELD_OUT = 50
"""One prompt in this many is held out."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Token ids of a prompt and the answer to it, int32 [n]; the first `prompt` of them are the prompt."""

    tokens: NDArray[np.int32]
    prompt: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def key(self) -> bytes:
        """Hash of the prompt."""
        return hashlib.sha256(self.tokens[: self.prompt].astype("<i4").tobytes()).digest()

    @property
    def held_out(self) -> bool:
        """Whether its prompt is never trained on. The prompt's hash decides, so every run and file agree."""
        return int.from_bytes(self.key[:8], "big") % HELD_OUT == 0


def read_answers(paths: Iterable[Path], vocab_size: int, longest: int) -> list[Answer]:
    """All answers of some files, one per prompt, in order.

    Args:
        vocab_size: of the target; larger ids raise an error.
        longest: most tokens of a sequence. Longer answers are cut; prompts that leave no room are skipped.

    Raises:
        BenchError: a file cannot be read, has no answer to learn from, or has another model's tokens.
    """
    answers: dict[bytes, Answer] = {}
    for path in paths:
        for answer in _read(path):
            if answer.prompt < 1 or len(answer) - answer.prompt < 2 or answer.prompt + 2 > longest:
                continue
            if not 0 <= int(answer.tokens.min()) <= int(answer.tokens.max()) < vocab_size:
                raise BenchError(
                    f"{path} holds tokens outside the model's vocabulary of {vocab_size}; name its own data"
                )
            answers.setdefault(answer.key, Answer(answer.tokens[:longest], answer.prompt))
    if not answers:
        raise BenchError("there is no answer to learn from in the data; record some with `rag train distil`")
    return list(answers.values())


def split(answers: Sequence[Answer]) -> tuple[list[Answer], list[Answer]]:
    """(to train on, held out); if no hash selects an answer, some of the first are held out."""
    held_out = [answer for answer in answers if answer.held_out]
    if not held_out and len(answers) > 1:
        held_out = list(answers[: max(1, len(answers) // HELD_OUT)])
    excluded = set(map(id, held_out))
    return [answer for answer in answers if id(answer) not in excluded], held_out


def frequent_tokens(answers: Iterable[Answer], vocab_size: int, size: int) -> torch.Tensor | None:
    """The `size` tokens that answers use most, int64 ascending; None if that is the whole vocabulary or `size` is 0."""
    if not 0 < size < vocab_size:
        return None
    counts = np.zeros(vocab_size, np.int64)
    for answer in answers:
        counts += np.bincount(answer.tokens[answer.prompt :], minlength=vocab_size)
    return torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[:size]))


def grouped(items: Iterable[T], size_of: Callable[[T], int], most: int) -> list[list[T]]:
    """Items in order, in groups of a total size of at most `most`; a larger item is a group by itself."""
    groups: list[list[T]] = [[]]
    size = 0
    for item in items:
        if groups[-1] and size + size_of(item) > most:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += size_of(item)
    return groups


def _read(path: Path) -> list[Answer]:
    if path.suffix != ".npz":
        return [
            Answer(np.array([*recording.prompt_ids, *recording.output_ids], np.int32), len(recording.prompt_ids))
            for recording in read_recordings(path)
        ]
    try:
        with np.load(path, allow_pickle=False) as archive:
            tokens, offsets, prompts = (archive[name] for name in ("tokens", "offsets", "prompt_lengths"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BenchError(f"{path} is no archive of answers: {error}") from None
    if len(offsets) != len(prompts) + 1 or int(offsets[-1]) != len(tokens):
        raise BenchError(f"{path}: offsets, prompt_lengths and tokens do not fit together")
    tokens = tokens.astype(np.int32)
    return [
        Answer(tokens[start:stop], int(prompt))
        for start, stop, prompt in zip(offsets[:-1], offsets[1:], prompts, strict=True)
    ]
