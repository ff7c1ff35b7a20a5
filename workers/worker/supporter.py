"""How far the passages state an answer, by its words and by the model's own state or word.

A model with a readout is read: its state at the prompt's last token comes with the answer's own prefill. Any other is
asked for one token, Yes or No, in a prompt that begins like the answer's, on a copy of its rows: the passages are only
read again where these are gone. Knows jobs, evidence, readouts and calibrations; knows no Redis.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from decoder import SamplingParams
from workers.broker.messages import Checking, GenerateJob, Segment, Support
from workers.errors import RuntimeClosed
from workers.support.assessment import assess
from workers.support.calibration import Calibration, find
from workers.support.readout import shipped
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import Owner
from workers.worker.runtime import GenerationHandle, Runtime

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

States = Mapping[int, "torch.Tensor"]
"""Layer -> [D]: what was read of an answer's prompt."""
TOP = 20
"""Likeliest tokens among which Yes and No are looked for."""
YES = ("Yes", " Yes", "yes", " yes")
NO = ("No", " No", "no", " no")


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

    def reads(self, job: GenerateJob) -> frozenset[int]:
        """The layers to read of a job's prompt."""
        wanted = self._readout is not None and job.checking is not None and job.checking.check is not None
        return frozenset({self._readout.layer}) if wanted and self._readout is not None else frozenset()

    def refuses(self, job: GenerateJob, states: States) -> bool | None:
        """Whether an answer is refused before any of it is written; None if that takes the whole answer."""
        if job.checking is None or job.checking.abstain != "refuse":
            return False
        signals = {**job.checking.signals, **self._read(states)}
        calibration, _ = self._find(job.checking)
        if not calibration.answerable.weights.keys() <= signals.keys():
            return None
        return calibration.answerable.chance(signals) < calibration.threshold

    def support(
        self,
        job: GenerateJob,
        text: str,
        assemble: Callable[[Sequence[Segment]], list[int]],
        runtime: Runtime,
        cancelled: Callable[[], bool],
        owner: Owner | None,
        states: States,
        asked: list[GenerationHandle] | None = None,
    ) -> Support | None:
        """The support of an answer's text; None for a job without passages.

        Args:
            assemble: a prompt's ids.
            owner: whose rows the answer's prompt left. Where they are gone, the passages are read again: what is kept
                must not decide what an answer is said to be worth.
            states: what was read of the prompt; of an answer that another worker began, nothing.
            asked: gets the handle of what the model is asked for it.

        An error of the engine leaves the answer with the support of its words alone.

        Raises:
            RuntimeClosed.
        """
        checking = job.checking
        if checking is None:
            return None
        own = self._read(states)
        if not own and checking.check is not None:
            borrowed = owner and replace(owner, borrows=True)
            submit = partial(runtime.submit, cancelled=cancelled, owner=borrowed)

            def run(*prompt: Any, **options: Any) -> GenerationHandle:
                handle = submit(*prompt, **options)
                if asked is not None:
                    asked.append(handle)
                return handle

            try:
                if self._readout is None:
                    own = self._ask(job, checking.check, checking.check_at, text, assemble, run)
                else:
                    own = self._read_again(assemble(job.segments), run)
            except RuntimeClosed:
                raise
            except Exception as error:  # such as want of memory: the answer is complete, and stays
                logger.warning("the model could not be asked for support (%s: %s)", type(error).__name__, error)
        return assess(job, checking, text, own, *self._find(checking))

    def _find(self, checking: Checking) -> tuple[Calibration, bool]:
        return find(self._model, self._dtype, checking.prompt, checking.language, self._own)

    def _read(self, states: States) -> dict[str, float]:
        """The readout, as a signal."""
        if self._readout is None or self._readout.layer not in states:
            return {}
        return {"readout": self._readout.odds(states[self._readout.layer].float().cpu().numpy())}

    def _read_again(self, prompt: list[int], run: Callable[..., GenerationHandle]) -> dict[str, float]:
        """The readout of a prompt whose answer another worker began: one pass over its last token."""
        assert self._readout is not None
        layers = frozenset({self._readout.layer})
        with closing(run(prompt, SamplingParams(max_tokens=1), drafter="plain", read=layers)) as handle:
            list(handle)
        return self._read(handle.states)

    def _ask(
        self,
        job: GenerateJob,
        check: Sequence[str | None],
        check_at: int,
        text: str,
        assemble: Callable[[Sequence[Segment]], list[int]],
        run: Callable[..., GenerationHandle],
    ) -> dict[str, float]:
        """Log-odds of the model's Yes, as a signal; none if it was cancelled."""
        written = "".join(text if part is None else part for part in check)
        asked = [*job.segments[:check_at], Segment(kind="instruction", key="", text=written), job.segments[-1]]
        with closing(run(assemble(asked), SamplingParams(max_tokens=1, logprobs=TOP), drafter="plain")) as handle:
            measured = [token for step in handle for token in step.logprobs]
        return {"check": self._odds(dict(measured[0].top))} if measured else {}

    def _odds(self, top: Mapping[int, float]) -> float:
        """Log-odds of Yes against No; a word that is not among the likeliest tokens counts as the least of them."""
        least = min(top.values())

        def chance(tokens: frozenset[int]) -> float:
            return sum(math.exp(logprob) for token, logprob in top.items() if token in tokens) or math.exp(least)

        return math.log(chance(self._yes) / chance(self._no))
