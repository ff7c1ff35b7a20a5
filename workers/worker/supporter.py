"""How far the passages state an answer: asks the model before it answers, reads the words after it.

The model is asked for one token, Yes or No, in a prompt that begins like the answer's: the answer then begins on the
rows of that prompt, so that the passages are read once. Knows jobs, evidence and calibrations; knows no Redis.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from decoder import DecodeStats, SamplingParams
from workers.broker.messages import Checking, GenerateJob, Segment, SentenceSupport, Support
from workers.support.calibration import Calibration, find
from workers.support.evidence import Evidence, Found, sentences
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import Owner
from workers.worker.runtime import Runtime

TOP = 20
"""Likeliest tokens among which Yes and No are looked for."""
YES = ("Yes", " Yes", "yes", " yes")
NO = ("No", " No", "no", " no")
DIGITS = 2
"""Decimals of the chances that the API shows."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The model's word on the passages, and what asking cost.

    Attributes:
        odds: log-odds of Yes against No.
    """

    odds: float
    stats: DecodeStats
    ms: float


class Supporter:
    """Computes the support of a worker's answers.

    Args:
        model, dtype: of the target, as the operator names them.
        own: the operator's calibration, used where it holds.
    """

    def __init__(self, tokens: Tokens, model: str, dtype: str, own: Calibration | None = None) -> None:
        self._model, self._dtype, self._own = model, dtype, own
        self._yes, self._no = (frozenset(tokens.encode_content(word).ids[0] for word in words) for words in (YES, NO))

    def ask(
        self,
        job: GenerateJob,
        assemble: Callable[[Sequence[Segment]], list[int]],
        runtime: Runtime,
        cancelled: Callable[[], bool],
        owner: Owner | None,
    ) -> Checked | None:
        """Ask the model whether the passages state the answer; None if the job does not want it.

        Without stored rows the passages would be read twice, so it is not asked then.

        Raises:
            the engine's errors for this prompt, RuntimeClosed.
        """
        checking = job.checking
        if checking is None or checking.check is None or owner is None or not runtime.store.on:
            return None
        started = time.perf_counter()
        check = Segment(kind="instruction", key="", text=checking.check)
        prompt = assemble([*job.segments[: checking.check_at], check, job.segments[-1]])
        one = SamplingParams(max_tokens=1, logprobs=TOP)
        handle = runtime.submit(prompt, one, cancelled, owner=owner, drafter="plain")
        with closing(handle):
            measured = [token for step in handle for token in step.logprobs]
        if not measured or handle.stats is None:
            return None
        top = dict(measured[0].top)
        return Checked(self._odds(top), handle.stats, 1e3 * (time.perf_counter() - started))

    def support(self, job: GenerateJob, text: str, checked: Checked | None) -> Support | None:
        """The support of an answer's text; None for a job without passages."""
        checking = job.checking
        if checking is None:
            return None
        shown = [str(p["text"]) for p in job.passages if p.get("in_prompt", True)]
        evidence = Evidence(checking.question, shown, checking.language)
        spans = sentences(text)
        found = [evidence.of(text[start:end]) for start, end in spans]
        common = {**checking.signals, "asked": evidence.asked(), **({"check": checked.odds} if checked else {})}
        weakest = min(found, key=lambda one: one.evidence, default=Found())
        signals = {**common, "evidence": weakest.evidence, "covered": weakest.covered}
        calibration, calibrated = find(self._model, self._dtype, checking.prompt, self._own)
        answerable = calibration.answerable.chance(signals)
        return Support(
            support=round(calibration.support.chance(signals), DIGITS),
            answerable=round(answerable, DIGITS),
            calibrated=calibrated and checked is not None,
            abstained=_abstained(checking, answerable < calibration.threshold),
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
