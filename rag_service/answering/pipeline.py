"""The path of every query: `Retrieval.find` → `questions.job` → `Queue.enqueue_generate`. `AnswerReader` reads on.

Knows the order of the hops and checks a request before any worker sees it; knows no HTTP.

Next: `Retrieval.find` (`retrieval.py`).
"""

from __future__ import annotations

import contextlib
import re
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio

from rag_service.answering.answers import is_doubtful
from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.answering.outdated import outdated_turns
from rag_service.answering.search.retrieval import QuestionInContext
from rag_service.answering.service import Service
from rag_service.answering.turns import busy, check_room, claim
from rag_service.contract.answer import Answer
from rag_service.contract.collections import split
from rag_service.contract.ids import unknown_answer
from rag_service.contract.schemas import AnswerOptions, EditRequest, QueryRequest
from rag_service.errors import Conflict, ContextOverflow, Forbidden, InvalidRequest, NotFound
from rag_service.prompting import conversation, edits, questions
from rag_service.prompting.checking import Support
from rag_service.prompting.conversation import Conversation
from rag_service.prompting.generation_options import Repetitions
from rag_service.prompting.jobs import NO_TURN
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.rewriting.standalone import takes_from_answer
from rag_service.prompting.template import PromptTemplate
from retriever.languages import language_of
from workers.broker.messages import Abstain, GenerateJob, TurnRecord
from workers.errors import ClaimLost, QueueUnavailable
from workers.sessions.streams import AnswerRecord

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
LATEST = 20
"""Turns of a session that are looked at for warnings."""
ATTEMPTS = 3
"""Tries to enqueue a turn whose claim on its session lapsed while its prompt was built."""


class Pipeline(Service):
    """The service and the path of a query through it."""

    async def answer(self, request: QueryRequest | Conversation) -> str:
        """Retrieve, build the prompt and enqueue. Returns the answer's id; `answers.events` yields the rest.

        Raises:
            Problem: the request is rejected, and nothing of it is stored.
        """
        await anyio.to_thread.run_sync(self._check, request)
        if isinstance(request, Conversation) or request.apart:
            return await self._detached(request)
        session_id = request.session_id or uuid.uuid4().hex
        return await self._next_turn(request, session_id, lambda answer_id: self._query(request, session_id, answer_id))

    async def edit(self, answer_id: str, request: EditRequest) -> str:
        """Enqueue a new version of a finished answer. Returns the new version's id.

        Raises:
            Problem: the request is rejected, and nothing of it is stored.
        """
        await anyio.to_thread.run_sync(self._check, request)
        record = await self.answers.record(answer_id)
        edits.finished(record)
        await anyio.to_thread.run_sync(self.admission.check_engine, request, record["collection"])
        base = await self.answers.result(answer_id)
        edited = partial(self._edited, request, record, base)
        return await self._next_turn(
            request, record["session_id"], lambda new_id: anyio.to_thread.run_sync(edited, new_id)
        )

    def _check(self, request: QueryRequest | EditRequest | Conversation) -> None:
        """Reject what can be rejected before any other work."""
        if isinstance(request, QueryRequest) and request.prompt is not None and not self.principal.may("editor"):
            raise Forbidden("Your key has the role reader, and `prompt` needs the role editor. Leave it out.")
        self._check_names(request)
        if isinstance(request, Conversation) or (isinstance(request, QueryRequest) and request.collection is not None):
            self.admission.check_engine(request, request.collection)
        self.admission.check_capacity()

    def _check_names(self, request: QueryRequest | EditRequest | Conversation) -> None:
        """Reject what is too large, and what names something that there is not."""
        self.admission.check(request)
        if not isinstance(request, EditRequest) and request.collection is not None:
            for name in split(request.collection):  # unknown names are rejected in every mode
                self.library.collection(name)

    async def _next_turn(
        self, request: AnswerOptions, session_id: str, make: Callable[[str], Awaitable[GenerateJob]]
    ) -> str:
        """Enqueue the job that `make` builds for a new answer id as the session's next turn; returns the id."""
        answer_id = uuid.uuid4().hex
        patience_s = self.settings.answers.timeout if request.on_conflict == "wait" else None

        def release() -> None:
            with contextlib.suppress(QueueUnavailable):  # then the claim lapses by itself
                self.sessions.release(self.principal.owner, session_id, answer_id)

        def enqueue(job: GenerateJob) -> bool:
            try:
                self.queue.enqueue_generate(job, claimed=True)
            except ClaimLost:
                return False
            except BaseException:
                release()
                raise
            return True

        for _ in range(ATTEMPTS):
            await claim(self.sessions, self.principal.owner, session_id, answer_id, patience_s=patience_s)
            try:
                job = self._addressed(await make(answer_id))
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(release)
                raise
            if await anyio.to_thread.run_sync(enqueue, job):
                self.totals.answers += 1
                return answer_id
        raise busy(session_id)

    async def _query(self, request: QueryRequest, session_id: str, answer_id: str) -> GenerateJob:
        turns = await anyio.to_thread.run_sync(self._turns, session_id) if request.session_id else []
        grounded = self.retrieval.mode(request.retrieval) != "none"
        collection = request.collection
        if grounded and collection is None:
            collection = await anyio.to_thread.run_sync(self._collection, turns)
        await anyio.to_thread.run_sync(self.admission.check_engine, request, collection)
        asking = [n for n, turn in enumerate(turns) if not self.templates.is_greeting(turn.question)]
        outdated = (await anyio.to_thread.run_sync(outdated_turns, self.library, turns)).intersection(asking)
        question, revised = QuestionInContext.in_session(request.question, session_id, turns), None
        doubtful, unsupported = False, frozenset[int]()
        last = asking[-1] if asking else -1
        if last >= 0 and last not in outdated and self.templates.is_revision(request.question):
            revised = turns[last].segments[-1]
            doubtful = await self._is_doubtful(turns[last])
            retrieved = Retrieved(passages=[one for one in turns[last].passages if one.get("in_prompt", True)])
        else:
            retrieved = await self.retrieval.find(self.library, self.principal, collection, request.retrieval, question)
            asked = retrieved.in_full(request.question)
            points_back = retrieved.joined and retrieved.not_rewritten is None
            if turns and (points_back or takes_from_answer(asked, request.question, question.past)):
                doubtful = await self._is_doubtful(turns[-1])
            elif retrieved.stands_alone(request.question):
                unsupported = await self._unsupported(request.question, turns, [n for n in asking if n not in outdated])
        find = partial(self._template, retrieved, question, collection, request.abstain, request.prompt)
        template, support = await anyio.to_thread.run_sync(find)
        make = partial(
            questions.job,
            request,
            retrieved,
            turns,
            self.tokens,
            principal=self.principal,
            session_id=session_id,
            answer_id=answer_id,
            collection=collection,
            window=self.window,
            max_tokens=request.max_tokens or self.settings.answers.max_tokens,
            template=template,
            grounded=grounded,
            drafter=self.settings.drafter,
            repetitions=self._repetitions,
            support=support,
            outdated=outdated,
            unsupported=unsupported,
            revised=revised,
            doubtful=doubtful,
        )
        return await anyio.to_thread.run_sync(make)

    async def _unsupported(self, question: str, turns: Sequence[TurnRecord], asking: Sequence[int]) -> frozenset[int]:
        """The latest turns whose answers have a warning, but for those with a number that the question has, too."""
        numbers = set(_NUMBER.findall(question))
        about_others = [n for n in asking[-LATEST:] if numbers.isdisjoint(_NUMBER.findall(turns[n].segments[-1].text))]
        return frozenset([n for n in about_others if await self._is_doubtful(turns[n])])

    async def _is_doubtful(self, turn: TurnRecord) -> bool:
        """Whether a turn's answer has a warning; False if it is no longer kept."""
        with contextlib.suppress(NotFound):  # answers are kept for less long than sessions may be
            return is_doubtful(await self.answers.result(turn.answer_id))
        return False

    async def _detached(self, request: Conversation | QueryRequest) -> str:
        """Enqueue an answer that becomes no turn of a session, even if it continues one; returns its id."""
        answer_id = uuid.uuid4().hex
        if isinstance(request, QueryRequest):
            built = await self._query(request, request.session_id or "", answer_id)
            job = built.model_copy(update={"turn": NO_TURN})
        else:
            retrieved, template, support = await self._retrieved(request)
            make = partial(
                conversation.job,
                request,
                retrieved,
                self.tokens,
                principal=self.principal,
                answer_id=answer_id,
                window=self.window,
                max_tokens=request.max_tokens or self.settings.answers.max_tokens,
                template=template,
                grounded=self._grounded(request),
                drafter=self.settings.drafter,
                repetitions=self._repetitions,
                support=support,
            )
            job = await anyio.to_thread.run_sync(make)
        await anyio.to_thread.run_sync(self.queue.enqueue_generate, self._addressed(job))
        self.totals.answers += 1
        return answer_id

    async def count(self, request: Conversation) -> int:
        """Tokens of a conversation's prompt as it would be asked now, with its passages, but for rewriting a follow-up.

        Raises:
            Problem: the request would be rejected for something else than its length.
        """
        await anyio.to_thread.run_sync(self._check_names, request)
        as_it_stands = {"retrieval": request.retrieval.model_copy(update={"rewrite": False})}
        retrieved, template, _ = await self._retrieved(request.model_copy(update=as_it_stands))
        build = partial(
            conversation.build,
            request,
            tokens=self.tokens,
            max_tokens=request.max_tokens or self.settings.answers.max_tokens,
            template=template,
            grounded=self._grounded(request),
            whole=retrieved.whole,
        )

        def count() -> int:
            try:
                return build(retrieved.read, window=self.window).tokens
            except ContextOverflow:
                return build((), window=sys.maxsize).tokens

        return await anyio.to_thread.run_sync(count)

    async def _retrieved(self, request: Conversation) -> tuple[Retrieved, PromptTemplate, Support | None]:
        """What was found for a conversation's question, and our own texts for it."""
        question, collection = QuestionInContext(request.question, request.past), request.collection
        prose = not (request.json_schema or request.calls or request.tools)
        retrieved = await self.retrieval.find(
            self.library, self.principal, collection, request.retrieval, question, lists=prose
        )
        find = partial(self._template, retrieved, question, collection, request.abstain)
        template, support = await anyio.to_thread.run_sync(find)
        return retrieved, template, support

    def _grounded(self, request: Conversation) -> bool:
        return request.collection is not None and self.retrieval.mode(request.retrieval) != "none"

    def _edited(self, request: EditRequest, record: AnswerRecord, base: Answer, answer_id: str) -> GenerateJob:
        if self.answers.stream(base.answer_id).record() is None:  # erased while the edit waited for its turn
            raise unknown_answer(base.answer_id)
        template, support = self._template(Retrieved(), QuestionInContext(base.question), base.collection)
        return edits.job(
            request,
            record,
            base,
            self._turns(base.session_id),
            self.tokens,
            principal=self.principal,
            answer_id=answer_id,
            versions=len(self.sessions.versions(self.principal.owner, edits.root(record))),
            window=self.window,
            usual_tokens=self.settings.answers.max_tokens,
            template=template,
            drafter=self.settings.drafter,
            repetitions=self._repetitions,
            support=support,
            doubtful=is_doubtful(base),
        )

    def _addressed(self, job: GenerateJob) -> GenerateJob:
        """The job with the model server that its collections choose; none with our own engine."""
        return job.model_copy(update={"upstream": self.settings.upstream_of(job.collection)})

    def _template(
        self,
        retrieved: Retrieved,
        question: QuestionInContext,
        collection: str | None,
        abstain: Abstain | None = None,
        own: Mapping[str, str] | None = None,
    ) -> tuple[PromptTemplate, Support | None]:
        """Our own texts for a question, and how the support of its answer is found; None where that is off."""
        telling = question.telling(retrieved.in_full(question.question))
        try:
            template = self.templates.of(telling, collection, own)
        except ValueError as error:
            raise InvalidRequest(f"{str(error)[:1].upper()}{str(error)[1:]}.", "invalid_prompt") from None
        if self.templates.is_greeting(question.question):
            return replace(template, question=template.greeted, no_passages=template.greeted), None
        settings = self.settings.answers
        if not settings.support:
            return template, None
        language, digest = language_of(telling), self.templates.digest_of(template)
        return template, Support(template, language, digest, abstain or settings.abstain, settings.support_threshold)

    @property
    def _repetitions(self) -> Repetitions:
        """When answers that repeat themselves end."""
        own = self.settings.answers
        return Repetitions(
            own.repetition_length,
            own.repetition_times,
            own.passages_repetition_length,
            own.passages_repetition_times,
        )

    def _turns(self, session_id: str) -> list[TurnRecord]:
        """The turns of a session. Raises Conflict if it has no room for another one."""
        check_room(self.sessions, self.principal.owner, session_id, self.settings.answers.session_tokens)
        return self.names.turns(self.sessions.turns(self.principal.owner, session_id, self.tokens.hash))

    def _collection(self, turns: Sequence[TurnRecord]) -> str | None:
        """The collections of the session's last turn; for its first one `default`, if it exists.

        Raises Conflict if a collection of that turn does not exist any more.
        """
        existing = self.library.collections()
        last = self.answers.stream(turns[-1].answer_id).record() if turns else None
        if last is None:
            return DEFAULT_COLLECTION if DEFAULT_COLLECTION in existing else None
        asked = self.names.record(last)["collection"]
        for name in split(asked) if asked else ():
            if name not in existing:
                raise Conflict(
                    f"This conversation asks the collection {name!r}, which does not exist any more. "
                    "Name another one as `collection`, or begin a new conversation.",
                    "collection_gone",
                )
        return asked
