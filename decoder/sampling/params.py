"""SamplingParams: how the tokens of one answer are chosen. Knows ranges; knows no model and no tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Integral
from typing import Literal, get_args

from decoder.sampling.grammar import Grammar
from decoder.sampling.logprobs import MAX_ALTERNATIVES
from decoder.sampling.repetition import RepetitionStop

Exact = Literal["default", "strict", "bitwise"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen and when an answer ends.

    Args:
        max_tokens: most tokens to generate, at least 1.
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: keep the k best tokens; 0 keeps all.
        top_p: keep the smallest set of best tokens whose total probability reaches top_p.
        min_p: keep tokens whose probability is at least min_p times the best token's.
        repetition_penalty: divides positive logits, and multiplies negative ones, of tokens in prompt or answer.
        presence_penalty: subtracted once from logits of tokens in the answer.
        frequency_penalty: subtracted once per occurrence in the answer.
        logit_bias: token id -> amount added to its logit; -inf forbids the token.
        openings: runs of token ids that the answer must not begin with; the last token of one is forbidden behind the
            others.
        seed: 0 <= seed < 2**64; keys the noise together with `choice` and the absolute position.
        choice: index of this answer among several to one request.
        stop: strings that end the answer once its text contains one.
        stop_token_ids: token ids that end the answer, besides the model's own.
        ignore_eos: do not end at the model's own end tokens.
        exact: "strict" lets a one-token pass decide near-ties of passes over several rows (`near_ties.py`).
            "bitwise" is for engines whose target is bitwise, which all their answers are; others refuse it.
        grammar: the grammar that the answer follows; the answer ends when the grammar is complete.
        logprobs: alternatives per token whose log-probabilities to return, besides the chosen token's; None returns
            no log-probabilities.
        repetition: when an answer that repeats itself ends; None never ends it for that.

    Raises:
        ValueError: a value is outside its range; the message names the field and the range.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    openings: tuple[tuple[int, ...], ...] = ()
    seed: int = 0
    choice: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    exact: Exact = "default"
    grammar: Grammar | None = None
    logprobs: int | None = None
    repetition: RepetitionStop | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "top_k", "seed", "choice", "logprobs"):
            value = getattr(self, name)
            _require(isinstance(value, Integral) or (name == "logprobs" and value is None), name, "whole", value)
        for token in self.logit_bias:
            _require(isinstance(token, Integral), "logit_bias", "token ids, whole numbers, to finite ones", token)
        _require(self.max_tokens >= 1, "max_tokens", "at least 1", self.max_tokens)
        _require(0.0 <= self.temperature < math.inf, "temperature", "0 (greedy) or positive", self.temperature)
        _require(self.top_k >= 0, "top_k", "0 (off) or positive", self.top_k)
        _require(0.0 < self.top_p <= 1.0, "top_p", "in (0, 1]", self.top_p)
        _require(0.0 <= self.min_p < 1.0, "min_p", "in [0, 1)", self.min_p)
        penalty = self.repetition_penalty
        _require(0.0 < penalty < math.inf, "repetition_penalty", "positive", penalty)
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _require(math.isfinite(value), name, "a finite number", value)
        for token, bias in self.logit_bias.items():
            _require(token >= 0 and bias < math.inf, "logit_bias", "token ids >= 0 to finite numbers or -inf", bias)
        _require(all(self.openings), "openings", "runs of one or more token ids", self.openings)
        for kind in set(map(type, chain(*self.openings))):
            _require(issubclass(kind, Integral), "openings", "token ids, whole numbers", kind)
        _require(min(chain(*self.openings), default=0) >= 0, "openings", "token ids >= 0", self.openings)
        _require(0 <= self.seed < 2**64, "seed", "in [0, 2**64)", self.seed)
        _require(0 <= self.choice < 2**64, "choice", "in [0, 2**64)", self.choice)
        _require(not isinstance(self.stop, str), "stop", "a tuple of strings, not one string", self.stop)
        _require(all(self.stop), "stop", "non-empty strings", self.stop)
        _require(self.exact in get_args(Exact), "exact", "'default', 'strict' or 'bitwise'", self.exact)
        in_range = self.logprobs is None or 0 <= self.logprobs <= MAX_ALTERNATIVES
        _require(in_range, "logprobs", f"in [0, {MAX_ALTERNATIVES}]", self.logprobs)

    def behind(self, begun: Sequence[int]) -> SamplingParams:
        """The parameters of the next token of an answer, with what `openings` forbid there in `logit_bias`.

        Behind the longest opening there are none, which makes the choice of a greedy answer plain.

        Args:
            begun: the answer's tokens so far.
        """
        if len(begun) >= max(map(len, self.openings), default=0):
            return replace(self, openings=()) if self.openings else self
        own = tuple(begun)
        last = [opening[-1] for opening in self.openings if opening[:-1] == own]
        return replace(self, logit_bias={**self.logit_bias, **dict.fromkeys(last, -math.inf)}) if last else self

    @property
    def plain_greedy(self) -> bool:
        """Greedy with no logit processor: the token is the argmax of the raw logits."""
        return (
            self.temperature == 0.0
            and self.grammar is None
            and not self.logit_bias
            and not self.openings
            and self.repetition_penalty == 1.0
            and self.presence_penalty == 0.0
            and self.frequency_penalty == 0.0
        )

    @property
    def draws_from_all(self) -> bool:
        """Sampled without top-k, top-p and min-p: the noise of every token is read."""
        return self.temperature > 0.0 and not self.top_k and self.top_p == 1.0 and not self.min_p

    @property
    def reads_history(self) -> bool:
        """Whether the choice of a token depends on the tokens before it in other ways than through the logits."""
        penalised = self.repetition_penalty != 1.0 or bool(self.presence_penalty or self.frequency_penalty)
        return penalised or self.grammar is not None


def _require(valid: bool, name: str, allowed: str, value: object) -> None:
    if not valid:
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
