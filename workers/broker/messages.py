"""The messages that cross the process border, JSON only.

Knows the shape of jobs and events; knows no Redis, no Celery, no torch.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workers.broker import keys
from workers.broker.progress import FinishReason
from workers.broker.sampling import MOST_STOPS, MOST_TOKENS, SEED_LIMIT, SamplingFields

SegmentKind = Literal["template", "system", "passage", "question", "answer", "edited", "instruction", "notes"]
NotRewritten = Literal["late", "failed"]
Abstain = Literal["off", "warn", "refuse"]


class Message(BaseModel):
    """Any of them: its fields are fixed, and no others are taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Segment(Message):
    """A tagged run of prompt tokens.

    `template` text is tokenized with control tokens, every other kind without them. If `ids` is set (an answer's
    generated ids), the prompt uses it and `text` is for people only. `edited` is an answer that an edit quotes
    next to what to change; `notes` are the model's own on a part of a document.
    """

    kind: SegmentKind
    key: str
    """Content hash for content, answer id for answers: names the segment in caches and provenance."""
    text: str = ""
    ids: list[int] | None = None
    collection: str | None = None
    document_id: str | None = None
    chunk_id: str | None = None


class RepetitionLimit(Message):
    """An answer that repeats a stretch of tokens `times` times, with `length` tokens in all, ends."""

    length: int = Field(ge=1)
    times: int = Field(ge=2)


class Sampling(SamplingFields, Message):
    """Sampling parameters of one answer."""

    max_tokens: int = Field(default=256, ge=1, le=MOST_TOKENS)
    logit_bias: dict[int, float] = Field(default_factory=dict)
    seed: int = Field(ge=0, lt=SEED_LIMIT)
    stop: list[str] = Field(default_factory=list, max_length=MOST_STOPS + 1)
    """A request's own, and the prompt's question."""
    choice: int = Field(default=0, ge=0, lt=2**32)
    """Index of this answer among several of one request: each draws other tokens."""
    logprobs: int | None = Field(default=None, ge=0, le=20)
    """Measure log-probabilities, with so many alternatives a token; None measures none."""
    repetition: RepetitionLimit | None = None
    """None: no answer ends because it repeats itself."""


class Speculation(Message):
    """The drafter, and the most draft nodes in a step (None: the drafter's own default)."""

    drafter: str = "auto"
    max_nodes: int | None = Field(default=None, ge=1, le=256)


class Edit(Message):
    """Makes an answer a new version of another one."""

    base: str
    """Id of the answer under edit."""
    root: str
    """Id of the first version."""
    version: int = Field(ge=2)
    instruction: str
    """As the user wrote it."""
    segment: int
    """Index into GenerateJob.segments: the answer under edit, which the drafter copies from first."""
    text: str
    """Of the answer under edit."""
    citations: list[dict[str, Any]] = Field(default_factory=list)
    """Of the answer under edit."""


class CallableFunction(Message):
    """A function that an answer may call."""

    name: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments, an object."""


class Calls(Message):
    """The answer must be a call of one of these functions, or with `many` one or more calls in a row."""

    functions: list[CallableFunction] = Field(min_length=1)
    many: bool = False


class Checking(Message):
    """What an answer's support is computed from, besides its passages, and what follows from it."""

    question: str
    """What was asked, in a form that stands alone."""
    language: str = "en"
    """Of the question, an ISO 639-1 code."""
    check: list[str | None] | None = None
    """Texts that ask the model whether the passages state the answer, which stands in place of None. They take the
    place of the segments from `check_at` on, except for the last one. None: the model is not asked."""
    check_at: int = 0
    signals: dict[str, float] = Field(default_factory=dict)
    """Of the search: its `margin`, if it gave one."""
    prompt: str = ""
    """Digest of the prompt templates: a calibration holds for one of them."""
    abstain: Abstain = "warn"
    refusal: str = ""
    """The answer in place of one that is refused."""
    openings: list[list[int]] = Field(default_factory=list)
    """Token ids that a second answer does not begin with, if the first one does and has little support."""
    doubtful_below: float = 0.0
    """What little support is."""


class SentenceSupport(Message):
    """The sentence start:end of an answer, in code points, and that of a passage with the most evidence for it."""

    start: int
    end: int
    support: float
    passage: int = -1
    """Index among the job's passages that are in the prompt; -1: none has any of its words."""
    source_start: int = 0
    source_end: int = 0
    """Code points of the passage's text."""


class Place(Message):
    """The code points start:end of a passage's text; `passage` is its index among those of the job that are in the
    prompt."""

    passage: int
    start: int
    end: int
    columns: list[str] = Field(default_factory=list)
    """What heads the cells, if it is a row of a table."""


class Support(Message):
    """How far the passages state an answer."""

    support: float
    """The chance that the passages state the answer, 0 to 1."""
    answerable: float
    """The chance that they answer the question, 0 to 1."""
    calibrated: bool
    """Whether both are from a calibration that holds for this model, number format, prompt and language."""
    abstained: Literal["warned", "refused"] | None = None
    sentences: list[SentenceSupport] = Field(default_factory=list)
    signals: dict[str, float] = Field(default_factory=dict)
    """What both chances were computed from."""
    spoken: float = 1.0
    """Share of what was asked that the answer has in its words, 0 to 1."""
    nearest: Place | None = None
    """The sentence of the passages with most of what was asked; None if none has much of it."""


class Stated(Message):
    """An answer that the service states itself, from its search: no model runs."""

    text: str
    sentences: list[SentenceSupport] = Field(default_factory=list)
    """What it cites: spans of the text, and of the job's passages."""


class TurnRecord(Message):
    """One finished turn of a session. The worker appends it."""

    answer_id: str
    question: str
    """Of an edit: that of its first version."""
    base: str | None = None
    """Id of the answer that this one is an edit of."""
    instruction: str | None = None
    """Of an edit."""
    retrieval_query: str | None = None
    """As in GenerateJob."""
    forgotten: int = 0
    """Turns without passages, as in GenerateJob: later turns omit what this one omitted."""
    gone: int = 0
    """Dropped turns, as in GenerateJob."""
    segments: list[Segment]
    """The segments that this turn appended to the prompt, in order; the answer's segment (with its ids) is last."""
    passages: list[dict[str, Any]]
    created: float
    """Unix time, seconds."""


class GenerateJob(Message):
    """One answer to generate."""

    answer_id: str
    tenant: str = "default"
    person: str = ""
    """The person of the tenant who owns the answer; "" for nobody in particular."""
    session_id: str
    """"" for an answer outside sessions."""
    collection: str | None = None
    question: str
    segments: list[Segment]
    """The whole prompt, earlier turns included, in prompt order."""
    new_from: int = 0
    """Index of the first segment that this turn adds to its session's prompt."""
    turn: int | None = None
    """Number of turns in the session when the prompt was built. The finished turn is appended only if the session still
    has that many: a turn cannot follow one that its prompt lacks. None appends always, -1 never."""
    passages: list[dict[str, Any]] = Field(default_factory=list)
    sampling: Sampling
    speculation: Speculation = Speculation()
    prediction: str | None = None
    """The answer that the client expects, in whole or in part; the drafter copies from it."""
    edit: Edit | None = None
    doubtful: bool = False
    """The answer that this one changes, or says in other words, has a warning that the passages do not state it."""
    json_schema: dict[str, Any] | None = None
    """A JSON schema that the answer must follow."""
    calls: Calls | None = None
    """Calls that the answer must consist of, in the form of the model's chat template; overrides `json_schema`."""
    checking: Checking | None = None
    """None: the answer has no support, as without passages."""
    parts: list[list[Segment]] = Field(default_factory=list)
    """Prompts that ask for notes on a part of a document each, where it is too long for one prompt. The notes take the
    places of the segments of kind `notes`, in order."""
    notes_tokens: int = 128
    """Most tokens of the notes on a part."""
    stated: Stated | None = None
    """The answer, where the service knows it; None: the model generates it."""
    retrieval_query: str | None = None
    """The query that passages were searched with: the question or its rewrite; None without a search."""
    rewrite_ms: float | None = None
    """Milliseconds that rewriting the question took; None if it was not tried."""
    not_rewritten: NotRewritten | None = None
    """Why a follow-up was searched for with its own words, although it was to be rewritten."""
    search_ms: float | None = None
    """Milliseconds that the search took, with waiting for its turn; None without a search."""
    filtered: str = ""
    """The filter of a search that found nothing, in words; "" for any other search."""
    forgotten: int = Field(default=0, ge=0)
    """Turns without passages: the window is full, so this many of the session's oldest turns lost their passages."""
    passages_left: int = Field(default=0, ge=0)
    """Number of passages of earlier turns that this turn removed from the prompt."""
    gone: int = Field(default=0, ge=0)
    """Dropped turns: the prompt omits this many of the session's oldest turns."""
    turns_left: int = Field(default=0, ge=0)
    """Number of turns that this turn dropped."""
    outdated: int = Field(default=0, ge=0)
    """Number of turns that the prompt leaves out, since documents that they rest on have changed."""
    unsupported: int = Field(default=0, ge=0)
    """Number of turns that the prompt leaves out, since their answers have a warning."""
    upstream: str | None = None
    """The name of the model server that answers; None: the first one, or the worker's own engine."""
    rewrites: str | None = None
    """For a job that rewrites a question: the id of its session, "" for a history that a client sends. Such a job is
    not a turn; its rows have their own slot."""
    created: float
    """Unix time, seconds."""

    @property
    def owner(self) -> str:
        """The owner of answer and session, as in Redis keys."""
        return keys.owner(self.tenant, self.person)

    @property
    def later(self) -> int:
        """Number of turns behind the dropped ones that the prompt leaves out: those whose documents have changed, and
        those after an answer under edit."""
        if self.turn is None or self.turn < 0:
            return 0
        return max(0, self.turn - self.gone - sum(segment.kind == "answer" for segment in self.segments))

    @property
    def unread(self) -> list[dict[str, Any]]:
        """Retrieved passages that are not in the prompt; the drafter still copies from them."""
        return [passage for passage in self.passages if not passage.get("in_prompt", True)]

    @property
    def predicted_segment(self) -> int:
        """Segment index of the prediction in token origins: after the prompt's segments and the unread passages."""
        return len(self.segments) + len(self.unread)


class TokenEvent(Message):
    """One step of an answer. `t` is the index of the first id of `ids` within the answer."""

    type: Literal["token"] = "token"
    t: int
    ids: list[int]
    text: str
    """Text that became final with this step; may be empty while a stop string or a character is incomplete."""
    sources: list[TokenOrigin | None] = Field(default_factory=list)
    """One per id: the origin of the draft token; None for the target's own tokens."""
    logprobs: list[Logprob] | None = None
    """One per id, if the job requests them."""


class Logprob(Message):
    """Natural logarithms of probabilities in the target's raw distribution."""

    logprob: float
    top: list[tuple[int, float]] = Field(default_factory=list)
    """(token, its logprob) of the likeliest tokens, best first."""


class TokenOrigin(Message):
    drafter: str
    segment: int | None = None
    """Index into GenerateJob.segments; None: the answer itself."""
    offset: int | None = None
    """Token offset within that segment."""


class PassagesEvent(Message):
    type: Literal["passages"] = "passages"
    passages: list[dict[str, Any]] | None
    """None only in the stream: the answer's record has them, and reading the event fills them in."""


class PartsEvent(Message):
    """Progress of an answer that reads a document in parts: so many of them are read."""

    type: Literal["parts"] = "parts"
    done: int
    total: int


class WaitingEvent(Message):
    """The answer waits: the prompts of so many answers are read before its own. 0: its own is read now."""

    type: Literal["waiting"] = "waiting"
    answers: int


class RestartEvent(Message):
    """The answer starts again from its beginning: what was streamed of it so far does not count."""

    type: Literal["restart"] = "restart"
    reason: str


class DoneEvent(Message):
    type: Literal["done"] = "done"
    text: str
    """The whole answer."""
    ids: list[int]
    finish_reason: FinishReason
    usage: dict[str, int | dict[str, int]]
    """prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details{cached_tokens}; for edits and for answers
    with a prediction also completion_tokens_details{accepted_prediction_tokens, rejected_prediction_tokens}."""
    speculation: dict[str, Any]
    """drafter, mat, steps, drafted, accepted, acceptance_rate, by_source, plain_equivalent_steps,
    ms{draft, verify, prefill}; resumed_tokens: tokens of the answer that another worker had generated, not included in
    the other counts; near_ties, near_ties_changed and extra_passes, 0 unless the answer is strict."""
    timings: dict[str, float]
    """Milliseconds: queued, the time until a worker read some of the prompt: until it took the job, and then behind
    other answers' prompts; prefill, decode, total; first_token: from the end of `queued` to the first token generated
    here, the whole time if there was none; support: of finding the answer's support, after its last token."""
    support: Support | None = None
    support_missing: str | None = None
    """Why an answer from passages has no support, where the engine cannot tell it."""


class ErrorEvent(Message):
    type: Literal["error"] = "error"
    code: str
    detail: str
    retry_after: float | None = None
    """Seconds after which asking again makes sense; None if nobody knows."""


AnswerEvent = TokenEvent | PassagesEvent | WaitingEvent | PartsEvent | RestartEvent | DoneEvent | ErrorEvent

TokenEvent.model_rebuild()
