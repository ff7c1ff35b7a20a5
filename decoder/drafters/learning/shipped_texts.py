"""Counts of the shipped texts (`texts/`) in a tokenizer's tokens: what domains' tables of next tokens start from.

Any model can use them, since only its tokenizer is needed. Counting takes some seconds, so the counts are kept in a
file for each tokenizer if there is a folder for it.
"""

from __future__ import annotations

import hashlib
import logging
import lzma
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.learning.next_token_tables import BEST, MOST, Entries
from decoder.drafters.learning.next_tokens import entries

log = logging.getLogger(__name__)

TEXTS = Path(__file__).parent / "texts" / "texts.xz"
"""UTF-8, with a form feed between two texts."""
WEIGHT = 0.1
"""Rows of the target that a token of a text counts as."""
LEAST_PAIRS = 3
"""A context of two tokens that comes up less often is left out."""
LEAST_TOKENS = 4096
"""A vocabulary of fewer tokens is of no natural language."""
_AT_ONCE = 500
"""Texts that are encoded together."""
_SHIFT = 1 << 32
_VERSION = "next tokens 1"


def count(texts: Iterable[Sequence[int] | NDArray[np.int32]]) -> Entries:
    """Entries of all contexts in some texts, each a sequence of token ids; -1 parts a text in two."""
    joined: list[NDArray[np.int64]] = [np.asarray([*text, -1], np.int64) for text in texts if len(text) > 1]
    ids = np.concatenate(joined) if joined else np.empty(0, np.int64)
    ones = _counted(ids[:-1], ids[1:], 1)
    pairs = _counted((ids[:-2] + 1) * _SHIFT + ids[1:-1], ids[2:], LEAST_PAIRS, (ids[:-2] >= 0) & (ids[1:-1] >= 0))
    keys, tokens = np.concatenate((ones[0], pairs[0])), np.concatenate((ones[1], pairs[1]))  # pairs have greater keys
    return keys, tokens, np.concatenate((ones[2], pairs[2])), np.concatenate((ones[3], pairs[3]))


def shipped(tokenizer: Any, vocab_size: int, folder: Path | None = None) -> Entries | None:
    """The shipped texts' counts.

    Args:
        tokenizer: of `transformers`.
        vocab_size: of the model; a tokenizer may have more tokens, which are left out.
        folder: keeps them between runs, if it can be written.

    Returns:
        None for a tokenizer in Python, which would take minutes, and for one of few tokens.
    """
    if not getattr(tokenizer, "is_fast", False) or len(tokenizer) < LEAST_TOKENS:
        return None
    digest = _digest(tokenizer, vocab_size)
    if digest not in _KEPT:
        path = None if folder is None else folder / f"next-tokens-{digest}.npz"
        _KEPT[digest] = _read(path) or _write(_count_shipped(tokenizer, vocab_size), path)
    return _KEPT[digest]


_KEPT: dict[str, Entries] = {}
"""Of this process, by digest."""


def _counted(contexts: NDArray[np.int64], following: NDArray[np.int64], least: int, valid: Any = True) -> Entries:
    """Entries of the contexts that come up `least` times or more."""
    valid = valid & (contexts >= 0) & (following >= 0)
    keys, numbers = np.unique(contexts[valid], return_inverse=True)
    width = int(following.max(initial=0)) + 1
    both, times = np.unique(numbers * width + following[valid], return_counts=True)
    context, token = both // width, both % width
    order = np.lexsort((token, -times, context))
    context, token, times = context[order], token[order], times[order]
    starts = np.searchsorted(context, np.arange(len(keys)))
    place = np.arange(len(context)) - starts[context]
    totals = np.bincount(context, times, len(keys))
    best = place < BEST
    counts = entries(len(keys))
    counts[0][:] = keys
    counts[1][context[best], place[best]] = token[best]
    counts[2][context[best], place[best]] = (times / totals[context])[best]
    counts[3][:] = np.minimum(WEIGHT * totals, MOST)
    often = totals >= least
    return counts[0][often], counts[1][often], counts[2][often], counts[3][often]


def _count_shipped(tokenizer: Any, vocab_size: int) -> Entries:
    log.info("counting the shipped texts in the tokens of %s; some seconds", tokenizer.name_or_path)
    texts = lzma.decompress(TEXTS.read_bytes()).decode("utf-8").split("\f")
    ids: list[NDArray[np.int32]] = []
    for start in range(0, len(texts), _AT_ONCE):  # an encoding takes thirty times the memory of its ids
        part = texts[start : start + _AT_ONCE]
        encoded = tokenizer(part, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        ids += [np.array(text, np.int32) for text in encoded]
    return count([np.where(text < vocab_size, text, -1) for text in ids])


def _digest(tokenizer: Any, vocab_size: int) -> str:
    digest = hashlib.sha256(f"{_VERSION} {vocab_size} {WEIGHT} {LEAST_PAIRS} {BEST} {MOST} ".encode())
    digest.update(TEXTS.read_bytes())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    return digest.hexdigest()[:16]


def _read(path: Path | None) -> Entries | None:
    if path is None or not path.is_file():
        return None
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            keys, tokens, chances, rows = (file[name] for name in ("keys", "tokens", "chances", "rows"))
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None  # they are counted anew
    return keys, tokens, chances.astype(np.float64), rows.astype(np.float64)


def _write(counts: Entries, path: Path | None) -> Entries:
    keys, tokens, chances, rows = counts
    chances, rows = chances.astype(np.float32), rows.astype(np.float32)
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".next-tokens-") as folder:
                draft = Path(folder) / path.name
                np.savez(draft, keys=keys, tokens=tokens, chances=chances, rows=rows)
                draft.replace(path)
        except OSError as error:
            log.warning("the counts of the shipped texts could not be kept (%s); the next start counts again", error)
    return keys, tokens, chances.astype(np.float64), rows.astype(np.float64)  # as they are read
