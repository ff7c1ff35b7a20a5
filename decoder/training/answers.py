"""Answers to learn from: a model's own tokens behind prompts. Read from recordings (`rag bench record`, `rag train
distil`) and from packed archives.

An archive (.npz) has `tokens` (prompt and answer of each sequence, one after the other), `offsets` (n + 1) and
`prompt_lengths` (n). A file can hold both kinds of lines in any order; equal prompts count once.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decoder.recording.prompts import BenchError
from decoder.recording.record import read_recordings

ASIDE = 50
"""One prompt in so many is held aside."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Token ids of a prompt and the answer behind it, int32 [n]; the first `prompt` of them are the prompt."""

    tokens: NDArray[np.int32]
    prompt: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def key(self) -> bytes:
        """Hash of the prompt."""
        return hashlib.sha256(self.tokens[: self.prompt].astype("<i4").tobytes()).digest()

    @property
    def held_aside(self) -> bool:
        """Whether its prompt is never trained on: by hash, so that it is the same in every run and every file."""
        return int.from_bytes(self.key[:8], "big") % ASIDE == 0


def read_answers(paths: Iterable[Path], vocab_size: int, longest: int) -> list[Answer]:
    """All answers of some files, each prompt once, in order.

    Args:
        vocab_size: of the target; larger ids are refused.
        longest: tokens of a sequence beyond which its answer is cut; prompts that leave no room are left out.

    Raises:
        BenchError: a file cannot be read, holds nothing to learn from, or another model's tokens.
    """
    found: dict[bytes, Answer] = {}
    for path in paths:
        for answer in _read(path):
            if answer.prompt < 1 or len(answer) - answer.prompt < 2 or answer.prompt + 2 > longest:
                continue
            if not 0 <= int(answer.tokens.min()) <= int(answer.tokens.max()) < vocab_size:
                raise BenchError(
                    f"{path} holds tokens outside the model's vocabulary of {vocab_size}; name its own data"
                )
            found.setdefault(answer.key, Answer(answer.tokens[:longest], answer.prompt))
    if not found:
        raise BenchError("there is no answer to learn from in the data; record some with `rag train distil`")
    return list(found.values())


def split(answers: Sequence[Answer]) -> tuple[list[Answer], list[Answer]]:
    """(to train on, held aside); a few of the first are held aside where no hash falls there."""
    aside = [answer for answer in answers if answer.held_aside]
    if not aside and len(answers) > 1:
        aside = list(answers[: max(1, len(answers) // ASIDE)])
    chosen = {id(answer) for answer in aside}
    return [answer for answer in answers if id(answer) not in chosen], aside


def counts(answers: Iterable[Answer], vocab_size: int) -> NDArray[np.int64]:
    """How often each token occurs in the answers, int64 [vocab_size]."""
    total = np.zeros(vocab_size, np.int64)
    for answer in answers:
        total += np.bincount(answer.tokens[answer.prompt :], minlength=vocab_size)
    return total


def _read(path: Path) -> list[Answer]:
    if path.suffix != ".npz":
        return [
            Answer(np.array([*made.prompt_ids, *made.output_ids], np.int32), len(made.prompt_ids))
            for made in read_recordings(path)
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
