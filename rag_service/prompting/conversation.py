"""A conversation that its client sends as a whole: the prompt of its next answer, outside of any session. Pure.

Messages become segments with the roles of sessions (system, question, answer), tokenized anew. If the request names a
collection, passages go before the last question, as in a session's turn. A text to continue has no roles. If the window
is too small, passages are dropped from the lowest rank on; messages never are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_service.access.principal import Principal
from rag_service.contract.schemas import AbstainOption, AnswerOptions, RetrievalOptions
from rag_service.errors import BadRequest
from rag_service.prompting.checking import Support
from rag_service.prompting.generation_options import Repetitions, question_again, sampling, speculation
from rag_service.prompting.jobs import NO_TURN, make_job
from rag_service.prompting.prompt import (
    Prompt,
    content_segment,
    filled,
    length,
    listed,
    overflow,
    passage_segment,
)
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.rewriting.standalone import Exchange
from rag_service.prompting.shown import Passage
from rag_service.prompting.template import PromptTemplate
from workers.broker.messages import Calls, GenerateJob, Segment, SegmentKind
from workers.tokens.chat_template import Piece, Shape
from workers.tokens.tokenizer import Tokens, UnsupportedTokenizer

Role = Literal["system", "user", "assistant", "tool"]
KINDS: dict[str, SegmentKind] = {"system": "system", "user": "question", "assistant": "answer", "tool": "question"}


@dataclass(frozen=True, slots=True)
class Message:
    """A message, with the (name, arguments as JSON) of the tools that it calls."""

    role: Role
    text: str
    calls: tuple[tuple[str, str], ...] = ()


class Conversation(AnswerOptions):
    """A request of a client that keeps its own history.

    Attributes:
        messages: the history with the question last; empty if there is a `prompt`.
        tools: tools that the model may call, each as JSON.
        prompt: a text to continue, or its token ids.
        collection: the collection to search; None answers without passages.
        choice: index of this answer among several of one request.
        logprobs: alternatives per token to report with log-probabilities; None reports none.
        json_schema: a JSON schema that the answer must follow.
        calls: tool calls that the answer must consist of.
        predicted: the expected answer, or much of it.
        abstain: what happens if the passages probably do not answer the question; None for the service's default.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()
    prompt: str | list[int] | None = None
    collection: str | None = None
    retrieval: RetrievalOptions = RetrievalOptions()
    choice: int = 0
    logprobs: int | None = None
    json_schema: dict[str, Any] | None = None
    calls: Calls | None = None
    predicted: str | None = None
    abstain: AbstainOption = None

    @property
    def question(self) -> str:
        """The user's last message, or the text to continue."""
        if self.prompt is not None:
            return self.prompt if isinstance(self.prompt, str) else ""
        questions = [message.text for message in self.messages if message.role == "user"]
        return questions[-1] if questions else self.messages[-1].text

    @property
    def past(self) -> list[Exchange]:
        """The exchanges before the question, oldest first."""
        texts = [message for message in self.messages if message.role in ("user", "assistant") and message.text]
        pairs = itertools.pairwise(texts)
        return [Exchange(one.text, two.text) for one, two in pairs if (one.role, two.role) == ("user", "assistant")]


def job(
    request: Conversation,
    retrieved: Retrieved,
    tokens: Tokens,
    *,
    principal: Principal,
    answer_id: str,
    window: int,
    max_tokens: int,
    template: PromptTemplate,
    grounded: bool,
    drafter: str,
    repetitions: Repetitions,
    support: Support | None,
) -> GenerateJob:
    """The job of an answer that belongs to no session. Arguments and errors as `build`.

    Args:
        retrieved: the search and its passages.
        repetitions: when answers that repeat themselves end.
        support: how its support is found; None for an answer without it.
    """
    built = build(
        request,
        retrieved.read,
        tokens,
        window=window,
        max_tokens=max_tokens,
        template=template,
        grounded=grounded,
        whole=retrieved.whole,
    )
    if retrieved.stated:
        built = built.citing(retrieved.passages)
    options = {"choice": request.choice, "logprobs": request.logprobs}
    prose = not (request.json_schema or request.calls or request.tools)
    repetition = repetitions.limit(prose and bool(built.passages))
    again = question_again(template, retrieved, request.question, built.passages) if prose else []
    told = [message.text for message in request.messages if message.role != "assistant"]
    return make_job(
        answer_id,
        principal,
        built,
        session_id="",
        collection=request.collection,
        question=request.question,
        turn=NO_TURN,
        sampling=sampling(request, max_tokens, repetition, again).model_copy(update=options),
        speculation=speculation(request, drafter),
        prediction=request.predicted,
        json_schema=request.json_schema,
        calls=request.calls,
        checking=support.of(request.question, retrieved, built, tokens, told)
        if support and prose and not retrieved.stated
        else None,
        stated=retrieved.stated,
        retrieval_query=retrieved.query,
        rewrite_ms=retrieved.rewrite_ms,
        search_ms=retrieved.search_ms,
        not_rewritten=retrieved.not_rewritten,
        filtered=retrieved.filtered,
    )


def build(
    request: Conversation,
    passages: Sequence[Passage],
    tokens: Tokens,
    *,
    window: int,
    max_tokens: int,
    template: PromptTemplate,
    grounded: bool,
    whole: bool = False,
) -> Prompt:
    """The prompt of a conversation's next answer.

    Args:
        passages: those retrieved for its last question, best first.
        window: tokens that the model can hold, prompt and answer together.
        template: our own texts.
        grounded: whether retrieval is on.
        whole: whether the passages are those of one document: they keep their order, and the last ones are dropped.

    Raises:
        ContextOverflow: the prompt does not fit even without passages.
        BadRequest: the model's chat template rejects these roles, or the prompt is empty.
    """
    fits = len(passages)
    while True:
        ordered = passages[:fits] if whole else passages[:fits][::-1]  # the best one last
        shown = [passage_segment(passage, template) for passage in ordered]
        asked = template.whole if whole else template.question
        text = asked if passages else template.no_passages
        segments = _segments(request, shown, text, tokens, template if grounded else None)
        size = sum(length(segment, tokens) for segment in segments)
        if size == 0:
            raise BadRequest("The prompt is empty; write something to continue.", "empty_prompt", param="prompt")
        if size + max_tokens <= window:
            return Prompt(segments, 0, size, passages=listed(passages, passages[:fits], set(), ()))
        if not fits:
            raise overflow(size, max_tokens, window)
        fits -= 1


def _segments(
    request: Conversation, passages: Sequence[Segment], asked: str, tokens: Tokens, template: PromptTemplate | None
) -> list[Segment]:
    """`asked`: the template's text with the question; `template`: None answers without passages."""
    if isinstance(request.prompt, str):
        return [content_segment("question", request.prompt)]
    if request.prompt is not None:
        text = tokens.decode(request.prompt)
        return [content_segment("question", text).model_copy(update={"ids": list(request.prompt)})]
    messages = list(request.messages)
    if template is not None and messages[0].role != "system":
        messages.insert(0, Message("system", ""))
    question = max((n for n, message in enumerate(messages) if message.role == "user"), default=len(messages) - 1)
    segments: list[Segment] = []
    try:
        pieces, calls_and_tools = _pieces(messages, request.tools, tokens)
    except UnsupportedTokenizer as error:
        raise BadRequest(
            f"The model's chat template rejects these messages: {error}.", "unsupported_messages", param="messages"
        ) from None
    for piece in pieces:
        if isinstance(piece, str):
            segments.append(content_segment("template", piece))
            continue
        if piece >= len(messages):
            segments.append(calls_and_tools[piece - len(messages)])
            continue
        message = messages[piece]
        text = message.text.strip() if tokens.strips_content else message.text
        contents = [content_segment(KINDS[message.role], text)] if text else []
        if template is not None and piece == question:
            contents = [*passages, *(filled(asked, {"question": contents[0]}) if contents else ())]
        elif template is not None and piece == 0:
            contents.append(content_segment("system", f"\n\n{template.system}" if text else template.system))
        segments += contents
    return segments


def _pieces(messages: Sequence[Message], tools: Sequence[str], tokens: Tokens) -> tuple[list[Piece], list[Segment]]:
    """The template's pieces, and the calls and tools that fill the slots after those of the messages."""
    if not tools and not any(message.calls or message.role == "tool" for message in messages):
        return tokens.template_pieces([{"role": message.role} for message in messages]), []
    shapes = [Shape(message.role, bool(message.text) or not message.calls, len(message.calls)) for message in messages]
    called = [content_segment("answer", text) for message in messages for call in message.calls for text in call]
    return tokens.tool_pieces(shapes, len(tools)), [*called, *(content_segment("system", tool) for tool in tools)]
