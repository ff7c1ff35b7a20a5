"""How far the passages state an answer: reads its words and the model's state, and asks the model.

The state is that of the prompt's last token. The model is asked for one token, Yes or No, in a prompt that begins like
the answer's. Both run on a copy of the answer's rows: the passages are not read again. Knows jobs, evidence, readouts
and calibrations; knows no Redis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Literal

from decoder import SamplingParams
from workers.broker.messages import Checking, GenerateJob, Segment, SentenceSupport, Support
from workers.support.calibration import Calibration, find
from workers.support.evidence import Evidence, Found, repeats, sentences
from workers.support.readout import Reader, shipped
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import Owner
from workers.worker.runtime import GenerationHandle, Runtime

TOP = 20
"""Likeliest tokens among which Yes and No are looked for."""
YES = ("Yes", " Yes", "yes", " yes")
NO = ("No", " No", "no", " no")
DIGITS = 2
"""Decimals of the chances that the API shows."""


class Supporter:
    """Computes the support of a worker's answers.

    Args:
        model, dtype: of the target, as the operator names them.
        own: the operator's calibration, used where it holds.
    """

    def __init__(self, tokens: Tokens, model: str, dtype: str, own: Calibration | None = None) -> None:
        self._model, self._dtype, self._own = model, dtype, own
        self._readout = shipped().get(model)
        self._yes, self._no = (frozenset(tokens.encode_content(word).ids[0] for word in words) for words in (YES, NO))

    def support(
        self,
        job: GenerateJob,
        text: str,
        assemble: Callable[[Sequence[Segment]], list[int]],
        runtime: Runtime,
        cancelled: Callable[[], bool],
        owner: Owner | None,
    ) -> Support | None:
        """The support of an answer's text; None for a job without passages.

        Args:
            assemble: a prompt's ids.
            owner: whose rows the answer's prompt left.

        Raises:
            the engine's errors, RuntimeClosed.
        """
        checking = job.checking
        if checking is None:
            return None
        odds, read = None, None
        if checking.check is not None and owner is not None and runtime.store.holds(owner):
            # else the passages would be read again
            run = partial(runtime.submit, cancelled=cancelled, owner=replace(owner, borrows=True))
            odds = self._ask(job, checking.check, checking.check_at, text, assemble, run)
            read = self._read(assemble(job.segments), run)
        shown = [str(p["text"]) for p in job.passages if p.get("in_prompt", True)]
        evidence = Evidence(checking.question, shown, checking.language)
        spans = sentences(text)
        found = evidence.of_answer([text[start:end] for start, end in spans])
        asked = {"check": odds, "readout": read}
        common = {**checking.signals, **{name: value for name, value in asked.items() if value is not None}}
        weakest = min(found, key=lambda one: one.evidence, default=Found())
        signals = {**common, "evidence": weakest.evidence, "covered": weakest.covered}
        calibration, calibrated = find(self._model, self._dtype, checking.prompt, checking.language, self._own)
        answerable = calibration.answerable.chance(signals)
        return Support(
            support=round(calibration.support.chance(signals), DIGITS),
            answerable=round(answerable, DIGITS),
            calibrated=calibrated and odds is not None,
            abstained=_abstained(checking, answerable < calibration.threshold or repeats(job.question, text)),
            sentences=[
                SentenceSupport(
                    start=start,
                    end=end,
                    support=round(
                        calibration.support.chance({**common, "evidence": one.evidence, "covered": one.covered}), DIGITS
                    ),
                    passage=one.passage,
                    source_start=one.start,
                    source_end=one.end,
                )
                for (start, end), one in zip(spans, found, strict=True)
            ],
            signals={name: round(value, 4) for name, value in signals.items()},
        )

    def _read(self, prompt: list[int], run: Callable[..., GenerationHandle]) -> float | None:
        """The readout of the prompt; None if this model has none."""
        if self._readout is None:
            return None
        reader = Reader(self._readout.layer)
        with closing(run(prompt, SamplingParams(max_tokens=1), drafter=reader)) as handle:
            list(handle)
        return None if reader.state is None else self._readout.odds(reader.state)

    def _ask(
        self,
        job: GenerateJob,
        check: Sequence[str | None],
        check_at: int,
        text: str,
        assemble: Callable[[Sequence[Segment]], list[int]],
        run: Callable[..., GenerationHandle],
    ) -> float | None:
        """Log-odds of the model's Yes; None if it was cancelled."""
        written = "".join(text if part is None else part for part in check)
        asked = [*job.segments[:check_at], Segment(kind="instruction", key="", text=written), job.segments[-1]]
        with closing(run(assemble(asked), SamplingParams(max_tokens=1, logprobs=TOP), drafter="plain")) as handle:
            measured = [token for step in handle for token in step.logprobs]
        return self._odds(dict(measured[0].top)) if measured else None

    def _odds(self, top: Mapping[int, float]) -> float:
        """Log-odds of Yes against No; a word that is not among the likeliest tokens counts as the least of them."""
        least = min(top.values())

        def chance(tokens: frozenset[int]) -> float:
            return sum(math.exp(logprob) for token, logprob in top.items() if token in tokens) or math.exp(least)

        return math.log(chance(self._yes) / chance(self._no))


def _abstained(checking: Checking, doubtful: bool) -> Literal["warned", "refused"] | None:
    if not doubtful or checking.abstain == "off":
        return None
    return "refused" if checking.abstain == "refuse" else "warned"
