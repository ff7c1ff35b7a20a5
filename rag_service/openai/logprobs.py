"""Log-probabilities of an answer's tokens in OpenAI's two forms. Knows tokens' bytes and texts; knows no streams."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workers.broker.messages import Logprob
from workers.tokens.tokenizer import Tokens

LEAST = -9999.0
"""What OpenAI writes for tokens that cannot be: JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A token of a text.

    Attributes:
        start: its first character's place in the text, in code points.
    """

    token: int
    piece: bytes
    start: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class MeasuredRun:
    """The tokens of an answer's text, released as the text becomes final.

    Tokens without text (the end), and those after a stop string, are never released.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strips = tokens.strips_space
        self._waiting: deque[Measured] = deque()
        self._length = self._final = 0

    def push(self, ids: Iterable[int], logprobs: Sequence[Logprob] | None, text: str) -> list[Measured]:
        """Take an event's ids, and the text that became final with it; returns the tokens of final text."""
        for token, measured in zip(ids, logprobs or (), strict=False):
            piece = self._tokens.token_bytes(token)
            if piece:
                self._waiting.append(Measured(token, piece, self._length, measured.logprob, tuple(measured.top)))
                self._length += len(self._decoder.decode(piece.removeprefix(b" ") if self._strips else piece))
                self._strips = False
        self._final += len(text)
        ready = []
        while self._waiting and self._waiting[0].start < self._final:
            ready.append(self._waiting.popleft())
        return ready


def chat_form(run: Sequence[Measured], tokens: Tokens) -> dict[str, Any]:
    """`logprobs` of a chat choice."""

    def entry(piece: bytes, logprob: float) -> dict[str, Any]:
        return {"token": piece.decode("utf-8", "replace"), "logprob": max(logprob, LEAST), "bytes": list(piece)}

    content = [
        {
            **entry(one.piece, one.logprob),
            "top_logprobs": [entry(tokens.token_bytes(token), logprob) for token, logprob in one.top],
        }
        for one in run
    ]
    return {"content": content, "refusal": None}


def completion_form(run: Sequence[Measured], tokens: Tokens) -> dict[str, Any]:
    """`logprobs` of a completion's choice; of alternatives with the same text the likeliest."""
    tops = []
    for one in run:
        top: dict[str, float] = {}
        for token, logprob in one.top:
            top.setdefault(tokens.token_bytes(token).decode("utf-8", "replace"), max(logprob, LEAST))
        tops.append(top)
    return {
        "tokens": [one.piece.decode("utf-8", "replace") for one in run],
        "token_logprobs": [max(one.logprob, LEAST) for one in run],
        "top_logprobs": tops,
        "text_offset": [one.start for one in run],
    }
