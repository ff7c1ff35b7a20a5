"""One answer from a model server, from its job to its last event.

The same answer path as that of our own engine: jobs, streams, turns, support and refusals. What comes from the server
is text; our own tokenizer makes ids of it, piece by piece for the stream and as a whole for the record, so that
citations do not depend on how the text arrived.

Knows segments, text and events; knows no Celery and no HTTP.

Next: `UpstreamRuntime.submit` (`runtime.py`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from decoder import RepetitionStop
from decoder.sampling.repetition import Repetition
from workers.answers.assembly import assemble
from workers.answers.ending import decided, finish, state_answer
from workers.answers.notes import noted
from workers.answers.relay import Relay
from workers.broker.capabilities import Capabilities
from workers.broker.messages import DoneEvent, GenerateJob, Sampling, Segment, Support
from workers.broker.progress import FinishReason
from workers.errors import AnswerEnded, AnswerMissing, AnswerTaken
from workers.sessions.costs import Cost, TokenCounts, added
from workers.sessions.passage_ids import PassageIds
from workers.sessions.streams import AnswerStream
from workers.support.assessment import assess
from workers.support.calibration import Calibration, find
from workers.tokens.text_stream import TextStream
from workers.tokens.tokenizer import Tokens
from workers.upstream.chat import chat_messages
from workers.upstream.endpoint import Endpoint
from workers.upstream.errors import UpstreamError
from workers.upstream.request import ChatRequest, Usage
from workers.upstream.runtime import UpstreamRuntime
from workers.upstream.servers import SERVERS

logger = logging.getLogger(__name__)

DTYPE = "upstream"
"""In place of a number format, in the calibrations of model servers."""
TOP = 20
"""Likeliest tokens among which Yes and No are looked for."""
NO_LOGPROBS = "The model server gives no log-probabilities, from which the support of an answer is found."
NOT_CHECKED = "The model server did not answer the question that the support of an answer is found from."
STARTED_AGAIN = "The worker that wrote this answer ended, and the model server cannot continue it."


class Piece(NamedTuple):
    """Text from the server as the engine's steps have it (`decoder.Step`)."""

    tokens: tuple[int, ...]
    sources: tuple[None, ...]
    finish_reason: FinishReason | None
    logprobs: tuple[()] = ()


@dataclass(frozen=True)
class UpstreamAnswers:
    """Generates a worker's answers by model servers.

    Args:
        tokens: our own tokenizer.
        calibration: the operator's, used where it holds.
    """

    runtime: UpstreamRuntime
    tokens: Tokens
    passage_ids: PassageIds
    calibration: Calibration | None = None

    def generate(
        self, job: GenerateJob, stream: AnswerStream, cancelled: Callable[[], bool] = lambda: False
    ) -> DoneEvent | None:
        """Generate the answer of `job` and write its events, the last one together with the session's turn.

        Returns the last event; None if the answer is finished already or was erased.

        Raises:
            UpstreamError, RuntimeClosed, and QueueUnavailable if Redis stays away.
        """
        started, started_at = time.perf_counter(), time.time()
        queued = 1e3 * max(started_at - job.created, 0.0)
        try:
            status, streamed = stream.start(job.session_id)
            if status != "running":
                return None
            before = stream.streamed() if streamed else []
            wait = self.runtime.closing.wait
            if job.stated is not None:
                return state_answer(
                    job, job.stated, Relay(stream, TextStream(self.tokens), wait, before), self.tokens, queued
                )
            counts: list[TokenCounts] = []  # of all that the server was asked
            if job.parts:
                job = noted(job, lambda part: self._notes(job, part, cancelled, counts), stream, cancelled)
            if before and not (self._capabilities(job).continuation and job.json_schema is None):
                stream.restart(STARTED_AGAIN)
                before = []
            checking = job.checking
            refusing = checking is not None and checking.abstain == "refuse" and self._checks(job)
            relay = Relay(stream, TextStream(self.tokens, job.sampling.stop), wait, before, refusing)
            prompt, parts = assemble(
                self.tokens, job.segments, job.edit.segment if job.edit else None, self.passage_ids.of_job(job)
            )
            request = ChatRequest(
                chat_messages(job.segments),
                job.sampling,
                json_schema=job.json_schema,
                prediction=job.prediction or (job.edit.text if job.edit else None),
            )
            if relay.ids:
                logger.info("continuing answer %s after %d ids", job.answer_id, len(relay.ids))
                request = request.continuing(self.tokens.decode(relay.ids), len(relay.ids))
            repeats = self._repetition(job, prompt, relay.ids)
            first_token: float | None = None
            handle = self.runtime.submit(request, job.upstream, cancelled)
            with closing(handle):
                for deltas in handle:
                    ids = [token for delta in deltas for token in self.tokens.encode_content(delta.text).ids]
                    if ids and first_token is None:
                        first_token = 1e3 * (time.perf_counter() - started)
                    ended: FinishReason | None = deltas[-1].finish_reason
                    if repeats is not None:
                        for n, token in enumerate(ids):
                            if repeats.push(token):
                                ids, ended = ids[: n + 1], "repetition"
                                break
                    relay.take(Piece(tuple(ids), (None,) * len(ids), ended))
                    if relay.finish_reason is not None:
                        break
            decoded = time.perf_counter()
            support, missing = None, None
            if relay.finish_reason != "cancelled":
                support, missing = self._support(job, relay.text, cancelled, counts)
            spent = None if before else handle.usage  # of the whole answer
            ids = self.tokens.encode_content(relay.text).ids
            counts.append(_counts(spent, len(prompt), len(ids)))
            if refusing:
                support = decided(relay, support, job, self.tokens)
                ids = self.tokens.encode_content(relay.text).ids
            elapsed = 1e3 * (time.perf_counter() - started)
            first = elapsed if first_token is None else first_token
            done = DoneEvent(
                text=relay.text,
                ids=ids,
                finish_reason=relay.finish_reason or "error",
                usage=_usage(counts[-1], spent),
                speculation=self._told(job, spent),
                timings={
                    "queued": queued,
                    "prefill": first,
                    "first_token": first,
                    "decode": max(1e3 * (decoded - started) - first, 0.0),
                    "total": queued + elapsed,
                    **({"support": elapsed - 1e3 * (decoded - started)} if support else {}),
                },
                support=support,
                support_missing=missing,
            )
            endpoint = self._endpoint(job)
            cost = Cost("upstream", endpoint.name, endpoint.model, added(counts))
            finish(job, relay, done, self.tokens, prompt, parts, cost)
        except (AnswerMissing, AnswerEnded, AnswerTaken) as error:
            logger.info("%s", error)
            return None
        return done

    def _endpoint(self, job: GenerateJob) -> Endpoint:
        return self.runtime.endpoint(job.upstream)

    def _capabilities(self, job: GenerateJob) -> Capabilities:
        return SERVERS[self._endpoint(job).server].capabilities

    def _notes(
        self, job: GenerateJob, part: Sequence[Segment], cancelled: Callable[[], bool], counts: list[TokenCounts]
    ) -> str:
        """The model's notes on a part of a document: its likeliest text, up to `job.notes_tokens` tokens."""
        sampling = Sampling(max_tokens=job.notes_tokens, temperature=0.0, seed=0)
        with closing(self.runtime.submit(ChatRequest(chat_messages(part), sampling), job.upstream, cancelled)) as notes:
            text = "".join(delta.text for deltas in notes for delta in deltas)
        counts.append(_counts(notes.usage, self._length(part), len(self.tokens.encode_content(text).ids)))
        return text.strip()

    def _length(self, segments: Sequence[Segment]) -> int:
        """Tokens of a prompt, by our own tokenizer."""
        return len(assemble(self.tokens, segments)[0])

    def _repetition(self, job: GenerateJob, prompt: Sequence[int], before: Sequence[int]) -> Repetition | None:
        """What ends an answer that repeats itself, after the ids that another worker wrote; None if nothing does."""
        rule = job.sampling.repetition
        if rule is None:
            return None
        repetition = Repetition(RepetitionStop(rule.length, rule.times), prompt)
        for token in before:
            repetition.push(token)
        return repetition

    def _checks(self, job: GenerateJob) -> bool:
        return self._capabilities(job).check

    def _support(
        self, job: GenerateJob, text: str, cancelled: Callable[[], bool], counts: list[TokenCounts]
    ) -> tuple[Support | None, str | None]:
        """The support of an answer, by the model's own Yes or No; else None, and why there is none."""
        checking = job.checking
        if checking is None:
            return None, None
        if checking.check is None:  # a whole document: no question is asked of the model
            own: dict[str, float] = {}
        elif not self._checks(job):
            return None, NO_LOGPROBS
        else:
            written = "".join(text if part is None else part for part in checking.check)
            asked = [*job.segments[: checking.check_at], Segment(kind="instruction", key="", text=written)]
            asked.append(job.segments[-1])
            request = ChatRequest(
                chat_messages(asked),
                Sampling(max_tokens=1, temperature=0.0, seed=0),
                top_logprobs=TOP,
            )
            try:
                usage: list[Usage] = []
                top = self.runtime.odds(request, job.upstream, cancelled, usage)
            except UpstreamError as error:  # the answer is there already
                logger.warning("the support of answer %s cannot be found: %s", job.answer_id, error)
                return None, NOT_CHECKED
            counts.append(_counts(usage[-1] if usage else None, self._length(asked), 1))
            check = log_odds(top)
            if check is None:
                return None, NOT_CHECKED if top else NO_LOGPROBS
            own = {"check": check}
        model = self._endpoint(job).model
        calibration, calibrated = find(model, DTYPE, checking.prompt, checking.language, self.calibration)
        return assess(job, checking, text, own, calibration, calibrated), None

    def _told(self, job: GenerateJob, spent: Usage | None) -> dict[str, Any]:
        endpoint = self._endpoint(job)
        return {
            "engine": "upstream",
            "upstream": endpoint.name,
            "model": endpoint.model,
            "usage": "estimated" if spent is None else "reported",
        }


def log_odds(top: Mapping[str, float]) -> float | None:
    """Log-odds of Yes against No among the likeliest first tokens; None if neither is among them.

    One that is not among them counts as the least of them.

    Args:
        top: token's text -> natural logarithm of its probability.
    """
    chances = {"yes": 0.0, "no": 0.0}
    for token, logprob in top.items():
        if (word := token.strip().lower()) in chances:
            chances[word] += math.exp(logprob)
    if not any(chances.values()):
        return None
    least = math.exp(min(top.values()))
    return math.log((chances["yes"] or least) / (chances["no"] or least))


def _counts(spent: Usage | None, prompt: int, completion: int) -> TokenCounts:
    """Token counts as the server reports them; else those of our own tokenizer."""
    if spent is None:
        return TokenCounts(prompt, 0, completion, prompt + completion)
    return TokenCounts(spent.prompt, spent.cached, spent.completion)


def _usage(counted: TokenCounts, spent: Usage | None) -> dict[str, int | dict[str, int]]:
    usage: dict[str, int | dict[str, int]] = {
        "prompt_tokens": counted.prompt,
        "completion_tokens": counted.completion,
        "total_tokens": counted.prompt + counted.completion,
        "prompt_tokens_details": {"cached_tokens": counted.cached},
    }
    if spent is not None and (spent.accepted or spent.rejected):  # servers tell 0 of both without a prediction
        usage["completion_tokens_details"] = {
            "accepted_prediction_tokens": spent.accepted or 0,
            "rejected_prediction_tokens": spent.rejected or 0,
        }
    return usage
