"""What each token id adds to a text, in bytes.

Knows the decoders of `tokenizer.json` files of causal language models: byte-level ones, and sentencepiece ones with a
word mark and byte tokens. Knows no prompts and no streams.

Text is defined as the concatenated bytes of its ids read as UTF-8, so it can be built id by id: the text of ids 0..n
does not change when id n + 1 arrives, except for an unfinished character at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class UnsupportedTokenizer(ValueError):
    """This tokenizer cannot be used; the message says which part of it and what to use instead."""


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Bytes by token id.

    Attributes:
        table: one entry per id from 0 on; b"" for control tokens and for ids without a token.
        strips_space: whether one space at the very start of a text is dropped.
    """

    table: tuple[bytes, ...]
    strips_space: bool

    def of(self, token: int) -> bytes:
        """Bytes of one id; b"" for an id outside the vocabulary."""
        return self.table[token] if 0 <= token < len(self.table) else b""

    def join(self, ids: Iterable[int]) -> bytes:
        """Bytes of `ids`, without the space at the start if the tokenizer drops it."""
        joined = b"".join(self.of(token) for token in ids)
        return joined[1:] if self.strips_space and joined.startswith(b" ") else joined


def read_token_bytes(tokenizer: Mapping[str, Any]) -> TokenBytes:
    """Build the table from the parsed `tokenizer.json`.

    Raises:
        UnsupportedTokenizer: its decoder is neither byte-level nor sentencepiece's.
    """
    steps = list(_steps(tokenizer.get("decoder")))
    kinds = {step["type"] for step in steps}
    vocabulary = _vocabulary(tokenizer["model"])
    if "ByteLevel" in kinds:
        letters = {letter: byte for byte, letter in byte_letters().items()}
        pieces = {token: _byte_level(piece, letters) for piece, token in vocabulary.items()}
        strips = False
    elif kinds & {"ByteFallback", "Metaspace"} or any(_is_word_mark(step) for step in steps):
        fallback = "ByteFallback" in kinds
        pieces = {token: _sentencepiece(piece, fallback) for piece, token in vocabulary.items()}
        strips = any(step["type"] == "Strip" and step.get("start") for step in steps) or any(
            step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never" for step in steps
        )
    else:
        raise UnsupportedTokenizer(
            f"the tokenizer's decoder ({', '.join(sorted(kinds)) or 'none'}) is not supported; use a model whose "
            "tokenizer.json has a byte-level or a sentencepiece decoder, as Llama, Qwen, Mistral and SmolLM have"
        )
    for added in tokenizer.get("added_tokens") or ():
        pieces[added["id"]] = b"" if added["special"] else added["content"].encode()
    size = max(pieces, default=-1) + 1
    return TokenBytes(tuple(pieces.get(token, b"") for token in range(size)), strips)


def byte_letters() -> dict[int, str]:
    """The printable letter for each byte in byte-level vocabularies, as in GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(printable))
    return letters


def _steps(decoder: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for step in decoder["decoders"]:
            yield from _steps(step)
    else:
        yield decoder


def _is_word_mark(step: Mapping[str, Any]) -> bool:
    return bool(step["type"] == "Replace" and step.get("pattern") == {"String": "▁"} and step.get("content") == " ")


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    vocab = model["vocab"]
    if isinstance(vocab, list):  # Unigram: [piece, score] in id order
        return {piece: token for token, (piece, _) in enumerate(vocab)}
    return dict(vocab)


def _byte_level(piece: str, letters: Mapping[str, int]) -> bytes:
    try:
        return bytes(letters[letter] for letter in piece)
    except KeyError:  # a token added as plain text
        return piece.encode()


def _sentencepiece(piece: str, fallback: bool) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(piece) if fallback else None
    return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()
