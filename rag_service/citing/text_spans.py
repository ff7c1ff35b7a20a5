"""Where the tokens of a text stand in it, in code points. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

from rag_service.citing.citations import Text


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...

    @property
    def offsets(self) -> list[tuple[int, int]]: ...


class TextTokens(Protocol):
    """What this module asks of `workers.tokens.tokenizer.Tokens`."""

    @property
    def strips_space(self) -> bool: ...

    def encode_content(self, text: str) -> _Encoding: ...

    def token_bytes(self, token: int) -> bytes: ...


def answer_text(ids: Sequence[int], text: str, tokens: TextTokens) -> Text:
    """An answer's ids with the characters of `text` that each makes or takes part in.

    `text` may end before the ids do (a stop string cuts it).
    """
    return Text(ids, spans([tokens.token_bytes(token) for token in ids], tokens.strips_space), text)


def passage_text(text: str, tokens: TextTokens) -> Text:
    """A passage's text with its tokens. Where the tokenizer changes the text, its own offsets are used."""
    encoding = tokens.encode_content(text)
    pieces = [tokens.token_bytes(token) for token in encoding.ids]
    if b"".join(pieces) == text.encode("utf-8", "replace"):
        return Text(encoding.ids, spans(pieces), text)
    return Text(encoding.ids, encoding.offsets, text)


class Spans:
    """Where the pieces of a text in UTF-8 stand, one after the other.

    Args:
        strips_space: the text begins without the space of its first piece.
    """

    def __init__(self, strips_space: bool = False) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._length = 0
        self._at_start = strips_space

    def add(self, piece: bytes) -> tuple[int, int]:
        """(start, end) of the next piece in code points; pieces that share a character both count it."""
        start = self._length
        if self._at_start and piece:
            self._at_start = False
            piece = piece.removeprefix(b" ")
        self._length += len(self._decoder.decode(piece))
        unfinished = 1 if self._decoder.getstate()[0] else 0
        return start, self._length + unfinished


def spans(pieces: Sequence[bytes], strips_space: bool = False) -> list[tuple[int, int]]:
    """`Spans` of all pieces."""
    growing = Spans(strips_space)
    return [growing.add(piece) for piece in pieces]
