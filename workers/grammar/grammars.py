"""Grammars over a model's tokens, by llguidance.

Knows the bytes of every token; knows no model and no sampling. `decoder.sampling.grammar` defines the interface. A
grammar's state is a matcher of llguidance, which takes a few microseconds a token; drafters look ahead on copies.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from workers.broker.messages import GenerateJob
from workers.grammar.schemas import BadSchema, calls_text, json_text, reason
from workers.tokens.tokenizer import Tokens

CACHED = 64
"""Number of compiled grammars in the cache."""


class Grammars:
    """The grammars of one model's answers. Safe to use from several threads.

    Args:
        tokens: the model's tokenizer; no token without bytes is ever part of a text.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._lock = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[str, CompiledGrammar] = OrderedDict()

    def of_job(self, job: GenerateJob) -> CompiledGrammar | None:
        """The grammar of the answer; None for a free answer. Raises BadSchema."""
        if job.calls is not None:
            return self._of_text(calls_text(job.calls, self._tokens.call_form))
        return None if job.json_schema is None else self.of(job.json_schema)

    def of(self, schema: dict[str, Any] | bool) -> CompiledGrammar:
        """The grammar of a JSON schema. Raises BadSchema."""
        return self._of_text(json_text(schema))

    def _of_text(self, grammar: str) -> CompiledGrammar:
        key = hashlib.sha256(grammar.encode()).hexdigest()
        with self._lock:
            if (cached := self._compiled.get(key)) is not None:
                self._compiled.move_to_end(key)
                return cached
            if self._tokenizer is None:
                self._tokenizer = _tokenizer(self._tokens)
            compiled = self._compiled[key] = CompiledGrammar(self._tokenizer, grammar)
            if len(self._compiled) > CACHED:
                self._compiled.popitem(last=False)
            return compiled


class CompiledGrammar:
    """A compiled grammar: a `decoder.sampling.grammar.Grammar`. Raises BadSchema."""

    def __init__(self, tokenizer: LLTokenizer, grammar: str) -> None:
        self.vocab_size = tokenizer.vocab_size
        self._first = LLMatcher(tokenizer, grammar, log_level=0)
        if self._first.is_error():
            raise BadSchema(reason(self._first))

    def begin(self) -> MatcherState:
        return MatcherState(self._first.deep_copy(), self.vocab_size)


class MatcherState:
    """A place in a grammar: a `decoder.sampling.grammar.GrammarState`."""

    def __init__(self, matcher: LLMatcher, vocab_size: int, ahead: bool = False) -> None:
        self._matcher, self._vocab_size, self._ahead = matcher, vocab_size, ahead

    def allowed(self) -> NDArray[np.bool_]:
        if self._matcher.is_error():
            return np.zeros(self._vocab_size, dtype=np.bool_)
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        return np.unpackbits(bits, count=self._vocab_size, bitorder="little").view(np.bool_)

    def push(self, token: int) -> None:
        """Raises BadSchema if the grammar is too complex for the library; copies never raise it."""
        if not self._matcher.is_stopped() and not self._matcher.consume_token(token) and not self._ahead:
            raise BadSchema(reason(self._matcher))

    @property
    def complete(self) -> bool:
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def copy(self) -> MatcherState:
        return MatcherState(self._matcher.deep_copy(), self._vocab_size, ahead=True)


class _Vocabulary:
    """A tokenizer in llguidance's form: the bytes of every token."""

    bos_token_id = None

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.eos_token_id = min(tokens.eos_ids)
        pieces = [tokens.token_bytes(token) for token in range(tokens.vocab_size)]
        self.special_token_ids = [token for token, piece in enumerate(pieces) if not piece]
        self.tokens = [piece or f"<control {token}>".encode() for token, piece in enumerate(pieces)]

    def __call__(self, text: bytes | str) -> list[int]:
        return self._tokens.encode_written(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


def _tokenizer(tokens: Tokens) -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Vocabulary(tokens)), eos_token=sorted(tokens.eos_ids))
