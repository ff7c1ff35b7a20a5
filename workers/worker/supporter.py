"""How far the passages state an answer: reads its words, and asks the model.

The model is asked for one token, Yes or No, in a prompt that begins like the answer's, on a copy of its rows: the
passages are not read again. Knows jobs, evidence and calibrations; knows no Redis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Literal

from decoder import SamplingParams
from workers.broker.messages import Checking, GenerateJob, Segment, SentenceSupport, Support
from workers.support.calibration import Calibration, find
from workers.support.evidence import Evidence, Found, repeats, sentences
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import Owner
from workers.worker.runtime import Runtime

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
        odds = self._ask(job, checking, text, assemble, runtime, cancelled, owner)
        shown = [str(p["text"]) for p in job.passages if p.get("in_prompt", True)]
        evidence = Evidence(checking.question, shown, checking.language)
        spans = sentences(text)
        found = evidence.of_answer([text[start:end] for start, end in spans])
        common = {**checking.signals, **({} if odds is None else {"check": odds})}
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

    def _ask(
        self,
        job: GenerateJob,
        checking: Checking,
        text: str,
        assemble: Callable[[Sequence[Segment]], list[int]],
        runtime: Runtime,
        cancelled: Callable[[], bool],
        owner: Owner | None,
    ) -> float | None:
        """Log-odds of the model's Yes; None if the job does not want it, or the passages would be read again."""
        if checking.check is None or owner is None or not runtime.store.holds(owner):
            return None
        check = "".join(text if part is None else part for part in checking.check)
        asked = [*job.segments[: checking.check_at], Segment(kind="instruction", key="", text=check), job.segments[-1]]
        borrower = replace(owner, borrows=True)
        one = SamplingParams(max_tokens=1, logprobs=TOP)
        handle = runtime.submit(assemble(asked), one, cancelled, owner=borrower, drafter="plain")
        with closing(handle):
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
