"""The engine's scheduler thread: many answers, one target pass at a time.

Knows how answers share an engine, which stored rows they begin on, and what happens if one of them fails; knows no
Redis, no Celery and no text, except for the detokenizer that it passes on. Task threads submit prompts and iterate over
steps; only the scheduler uses the engine.

Next: `Engine.step` (`decoder/engine.py`).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Unpack

from workers.errors import RuntimeClosed, is_out_of_memory
from workers.worker.kv_store import KvStore, Owner

if TYPE_CHECKING:
    import torch

    from decoder import DecodeStats, Generation, SamplingParams, Step
    from decoder.request import RequestOptions

log = logging.getLogger(__name__)

Detokenize = Callable[[Sequence[int]], str]


class AnswerEngine(Protocol):
    """The part of an engine that the scheduler needs; `decoder.Engine` and the tests' `FakeEngine` have it."""

    def start(
        self, prompt_ids: Sequence[int], params: SamplingParams | None = None, **options: Unpack[RequestOptions]
    ) -> Generation: ...

    def save(self) -> None: ...

    def step(self, sequences: Sequence[Generation]) -> list[Step]: ...


class HasCompleteText(Protocol):
    def decode_complete(self, ids: Iterable[int]) -> str: ...


class GenerationHandle(Iterator["Step"]):
    """The steps of one submitted answer, as they come. The last one has a finish reason.

    Iterating raises the engine's error for this answer, or RuntimeClosed if the runtime closed before the end. `close`
    stops an answer that is not read any more. While iterating, `waiting` is called with the number of answers whose
    prompts are read first, when there are any and whenever it changes; with 0 once the answer's own prompt is read.
    """

    def __init__(
        self,
        begin: Callable[[Sequence[int]], Generation],
        cancelled: Callable[[], bool],
        owner: Owner | None = None,
        waiting: Callable[[int], None] = lambda answers: None,
    ) -> None:
        self._begin = begin
        self._waiting = waiting
        self._ahead = 0
        self._submitted_at = time.perf_counter()
        self._began_at: float | None = None
        self.owner = owner
        self._cancelled = cancelled
        self._abandoned = False
        self._ended = False
        self._arrived: queue.SimpleQueue[Step | int | Exception] = queue.SimpleQueue()
        """Steps, numbers of answers to wait for, and what ended them."""
        self._sequence: Generation | None = None
        self._delivered: list[int] = []
        """Tokens delivered; a restarted sequence continues after them."""
        self.states: Mapping[int, torch.Tensor] = {}
        """What was to be read of the prompt (`Request.read`): layer -> [D]; from the first tokens on."""
        self.alone = False
        """Set after a failed pass with others: from then on this answer has its own passes."""

    def __next__(self) -> Step:
        if self._ended:
            raise StopIteration
        while isinstance(item := self._arrived.get(), int):
            self._waiting(item)
        if isinstance(item, Exception):
            self._ended = True
            raise item
        self._ended = item.finish_reason is not None
        return item

    @property
    def stats(self) -> DecodeStats | None:
        """Counts so far; complete after the last step. None for an answer that never started."""
        return None if self._sequence is None else self._sequence.stats

    @property
    def waited_ms(self) -> float:
        """Milliseconds from its submission to the first pass that read some of its prompt; 0 before that pass."""
        return 0.0 if self._began_at is None else 1e3 * (self._began_at - self._submitted_at)

    def close(self) -> None:
        """Stop the answer before its next step, if it still runs."""
        self._abandoned = True

    # Only the scheduler calls the rest.

    def begin(self) -> None:
        """Start or restart the sequence; the engine's next steps process its prompt and the delivered tokens."""
        self._sequence = None
        self._sequence = self._begin(self._delivered)

    @property
    def sequence(self) -> Generation:
        assert self._sequence is not None, "begin() comes first"
        return self._sequence

    def pass_on_cancel(self) -> None:
        if self._abandoned or self._cancelled():
            self.sequence.cancel()

    @property
    def prefilled(self) -> bool:
        """Whether the engine has read its prompt: it has a token."""
        return bool(self._delivered)

    def wait_for(self, answers: int) -> None:
        """Its prompt is read after those of so many answers, unless some of it is read already."""
        if self._began_at is None and answers != self._ahead:
            self._ahead = answers
            self._arrived.put(answers)

    def deliver(self, step: Step, started: float) -> bool:
        """Deliver a step of the pass that began at `started`, by `time.perf_counter`. Returns whether it continues."""
        ended = step.finish_reason is not None
        if self._began_at is None and (step.tokens or ended or self.sequence.stats.ms["prefill"]):
            self.wait_for(0)
            self._began_at = started
        if step.tokens or step.finish_reason is not None:
            self.states = self.states or self.sequence.states
            self._delivered += step.tokens
            self._arrived.put(step)
        return step.finish_reason is None

    def fail(self, error: Exception) -> None:
        self._arrived.put(error)


class Runtime:
    """Owns an engine and the thread that runs it.

    Args:
        engine: used from the scheduler thread alone.
        tokens: turns ids into text for stop strings.
        store: stores rows of finished answers for later ones; used from the scheduler thread alone. None stores none.
    """

    def __init__(self, engine: AnswerEngine, tokens: HasCompleteText, store: KvStore | None = None) -> None:
        self._engine = engine
        self._tokens = tokens
        self.store = store or KvStore(0)
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[GenerationHandle | Callable[[], None] | None] = queue.SimpleQueue()
        self._running: list[GenerationHandle] = []
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the runtime accepts and runs answers."""
        return self._thread.is_alive() and not self.closing.is_set()

    @property
    def answers(self) -> int:
        """Number of running and waiting answers."""
        return len(self._running) + self._inbox.qsize()

    def submit(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        owner: Owner | None = None,
        waiting: Callable[[int], None] = lambda answers: None,
        **options: Unpack[RequestOptions],
    ) -> GenerationHandle:
        """Queue an answer and return its handle. Arguments as `decoder.Engine.start`.

        The scheduler thread calls `cancelled` between steps, so it must be quick.

        Args:
            owner: owner of the rows that the answer may begin on and stores at its end; None for neither.
            waiting: as in `GenerationHandle`.

        Raises:
            RuntimeClosed: the runtime accepts no more answers.
        """
        prompt = list(prompt_ids)

        def begin(delivered: Sequence[int]) -> Generation:
            reuse = self.store.take(owner, prompt) if owner is not None else None
            engine_options: RequestOptions = {
                **options,
                "detokenize": self._tokens.decode_complete,
                "resumed": [*options.get("resumed", ()), *delivered],
                "reuse": reuse,
                "keep": owner is not None and self.store.on and not owner.borrows,
            }
            try:
                sequence = self._engine.start(prompt, params, **engine_options)
            except Exception:  # rejected before it used the rows
                if owner is not None and reuse is not None and not owner.borrows:
                    self.store.put(owner, reuse)
                raise
            self.store.began(len(prompt), sequence.stats.cached_tokens)
            return sequence

        handle = GenerationHandle(begin, cancelled, owner, waiting)
        with self._lock:
            if not self.alive:
                raise RuntimeClosed
            self._inbox.put(handle)
        return handle

    def forget(self, owner: str, session: str) -> None:
        """Delete the rows of a session after the running pass."""
        self._inbox.put(lambda: self.store.drop(owner, session))

    def close(self, timeout_s: float | None = None) -> None:
        """Stop after the running step; unfinished answers get RuntimeClosed. Waits for the thread."""
        with self._lock:
            self.closing.set()
            self._inbox.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        error: Exception = RuntimeClosed()
        try:
            while not self.closing.is_set():
                self._admit()
                self._advance()
        except Exception as unexpected:  # a bug here must not leave answers waiting forever
            log.exception("the scheduler failed; this worker accepts no more answers")
            error = unexpected
        with self._lock:
            self.closing.set()
            unfinished = [*self._running]
            while not self._inbox.empty():
                if isinstance(handle := self._inbox.get(), GenerationHandle):
                    unfinished.append(handle)
        for handle in unfinished:
            handle.fail(error)
        try:
            self._engine.save()
        except OSError as failure:
            log.warning("the engine's learned tables cannot be saved: %s", failure)

    def _admit(self) -> None:
        """Start all waiting answers; wait for one if none runs."""
        while True:
            try:
                item = self._inbox.get(block=not self._running)
            except queue.Empty:
                return
            if item is None:
                return
            if not isinstance(item, GenerationHandle):
                item()
            elif self._begin(item):
                self._running.append(item)

    def _begin(self, handle: GenerationHandle) -> bool:
        """Start an answer; if memory is short, try again without stored rows. False if it failed."""
        try:
            try:
                handle.begin()
            except Exception as error:
                if not (is_out_of_memory(error) and self.store.clear()):
                    raise
                log.warning("no memory to start an answer (%s); it starts again without stored rows", error)
                cleared = True
            else:
                cleared = False
            if cleared:  # outside the handler, which keeps the failed frames and their memory
                handle.begin()
        except Exception as failure:
            handle.fail(failure)
            return False
        return True

    def _advance(self) -> None:
        """One pass for all answers that run together, and one for each answer that runs alone."""
        unread = 0
        for handle in self._running:  # the engine reads prompts in order of arrival
            handle.wait_for(unread)
            unread += not handle.prefilled
        together = [handle for handle in self._running if not handle.alone]
        groups = [together, *([handle] for handle in self._running if handle.alone)]
        self._running = [handle for group in groups if group for handle in self._step(group)]

    def _step(self, group: list[GenerationHandle]) -> list[GenerationHandle]:
        """One pass over a group. Returns the answers that continue.

        A failed pass does not show which answer caused it or what was committed already. Since an answer is a pure
        function of its prompt, every answer of the group restarts and continues alone; one that fails alone has failed.
        """
        for handle in group:
            handle.pass_on_cancel()
        started = time.perf_counter()
        try:
            steps = self._engine.step([handle.sequence for handle in group])
        except Exception as error:
            roomier = is_out_of_memory(error) and self.store.clear()
            if len(group) == 1 and not roomier:
                group[0].fail(error)
                return []
            log.warning("a pass over %d answers failed (%s); each continues alone", len(group), error)
            alone: list[GenerationHandle] = []
            for handle in group:
                handle.alone = True
                if self._begin(handle):
                    alone.append(handle)
            return alone
        return [handle for handle, step in zip(group, steps, strict=True) if self._deliver(handle, step, started)]

    def _deliver(self, handle: GenerationHandle, step: Step, started: float) -> bool:
        """Deliver a step. If the answer ends with it, store its rows first, for the next turn."""
        if step.finish_reason is not None and handle.owner is not None:
            self._store_rows(handle.owner, handle.sequence)
        return handle.deliver(step, started)

    def _store_rows(self, owner: Owner, sequence: Generation) -> None:
        """Store the rows of a finished answer; if memory is short, evict all rows instead."""
        try:
            prefix = sequence.detach_prefix()
            if prefix is not None:
                self.store.put(owner, prefix)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            log.warning("no memory to store an answer's rows (%s); all stored rows are evicted", error)
            self.store.clear()
