"""The engine's scheduler thread: many answers, one target pass at a time.

Knows how answers share an engine, which rows of earlier ones they begin on, and what happens when one of them fails;
knows no Redis, no Celery and no text beyond the detokenizer it hands on. Task threads submit prompts and iterate over
steps; only the scheduler touches the engine.

Next: `Engine.step` (`decoder/engine.py`).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Unpack

from workers.errors import RuntimeClosed, is_out_of_memory
from workers.worker.kv_store import KvStore, Owner

if TYPE_CHECKING:
    from decoder import DecodeStats, Generation, SamplingParams, Step
    from decoder.request import RequestOptions

log = logging.getLogger(__name__)

Detokenize = Callable[[Sequence[int]], str]


class AnswerEngine(Protocol):
    """What the scheduler asks of an engine; `decoder.Engine` and `tests.support.fake_workers.FakeEngine` have it."""

    def start(
        self, prompt_ids: Sequence[int], params: SamplingParams | None = None, **options: Unpack[RequestOptions]
    ) -> Generation: ...

    def save(self) -> None: ...

    def step(self, sequences: Sequence[Generation]) -> list[Step]: ...


class HasCompleteText(Protocol):
    def decode_complete(self, ids: Iterable[int]) -> str: ...


class GenerationHandle(Iterator["Step"]):
    """The steps of one submitted answer, as they come. The last one has a finish reason.

    Iterating raises what the engine raised for this answer, and RuntimeClosed when the runtime was closed before the
    end. `close` stops an answer that nobody reads any more.
    """

    def __init__(
        self,
        begin: Callable[[Sequence[int]], Generation],
        cancelled: Callable[[], bool],
        owner: Owner | None = None,
    ) -> None:
        self._begin = begin
        self.owner = owner
        self._cancelled = cancelled
        self._abandoned = False
        self._ended = False
        self._arrived: queue.SimpleQueue[Step | Exception] = queue.SimpleQueue()
        self._sequence: Generation | None = None
        self._delivered: list[int] = []
        """Tokens handed over; a sequence that is begun anew goes on behind them."""
        self.alone = False
        """Set once a pass with others failed: from then on this answer gets passes of its own."""

    def __next__(self) -> Step:
        if self._ended:
            raise StopIteration
        item = self._arrived.get()
        if isinstance(item, Exception):
            self._ended = True
            raise item
        self._ended = item.finish_reason is not None
        return item

    @property
    def stats(self) -> DecodeStats | None:
        """Counts so far; complete once the last step was taken. None for an answer that never began."""
        return None if self._sequence is None else self._sequence.stats

    def close(self) -> None:
        """Stop the answer before its next step, if it still runs."""
        self._abandoned = True

    # What follows is the scheduler's.

    def begin(self) -> None:
        """Set the sequence up (anew); the engine's next steps process its prompt and what was handed over."""
        self._sequence = None
        self._sequence = self._begin(self._delivered)

    @property
    def sequence(self) -> Generation:
        assert self._sequence is not None, "begin() comes first"
        return self._sequence

    def pass_on_cancel(self) -> None:
        if self._abandoned or self._cancelled():
            self.sequence.cancel()

    def deliver(self, step: Step) -> bool:
        """Hand a step over. Returns whether the answer goes on."""
        if step.tokens or step.finish_reason is not None:
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
        store: keeps rows of finished answers for those that follow; used from the scheduler thread alone. Keeps none
            where None.
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
        """Whether answers are taken and run."""
        return self._thread.is_alive() and not self.closing.is_set()

    @property
    def answers(self) -> int:
        """How many run or wait to run."""
        return len(self._running) + self._inbox.qsize()

    def submit(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        owner: Owner | None = None,
        **options: Unpack[RequestOptions],
    ) -> GenerationHandle:
        """Queue an answer and return its steps. Arguments as `decoder.Engine.start`.

        `cancelled` is asked between steps, from the scheduler thread, so it must be quick.

        Args:
            owner: whose rows the answer may begin on, and leaves behind; None for neither.

        Raises:
            RuntimeClosed: the runtime takes nothing any more.
        """
        prompt = list(prompt_ids)

        def begin(delivered: Sequence[int]) -> Generation:
            reuse = self.store.take(owner, prompt) if owner is not None else None
            own: RequestOptions = {
                **options,
                "detokenize": self._tokens.decode_complete,
                "resumed": [*options.get("resumed", ()), *delivered],
                "reuse": reuse,
                "keep": owner is not None and self.store.on,
            }
            try:
                sequence = self._engine.start(prompt, params, **own)
            except Exception:  # refused, before the rows were touched
                if owner is not None and reuse is not None:
                    self.store.put(owner, reuse)
                raise
            self.store.began(len(prompt), sequence.stats.cached_tokens)
            return sequence

        steps = GenerationHandle(begin, cancelled, owner)
        with self._lock:
            if not self.alive:
                raise RuntimeClosed
            self._inbox.put(steps)
        return steps

    def forget(self, owner: str, session: str) -> None:
        """Forget the rows of a session, once the running pass is over."""
        self._inbox.put(lambda: self.store.drop(owner, session))

    def close(self, timeout_s: float | None = None) -> None:
        """Stop after the running step; answers that are not finished get RuntimeClosed. Waits for the thread."""
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
        except Exception as unexpected:  # a bug here must not leave answers waiting for ever
            log.exception("the scheduler failed; this worker takes no more answers")
            error = unexpected
        with self._lock:
            self.closing.set()
            left = [*self._running]
            while not self._inbox.empty():
                if isinstance(steps := self._inbox.get(), GenerationHandle):
                    left.append(steps)
        for steps in left:
            steps.fail(error)
        try:
            self._engine.save()
        except OSError as failure:
            log.warning("what the engine learned could not be kept: %s", failure)

    def _admit(self) -> None:
        """Let every waiting answer join those that run; waits when nothing runs."""
        while True:
            try:
                steps = self._inbox.get(block=not self._running)
            except queue.Empty:
                return
            if steps is None:
                return
            if not isinstance(steps, GenerationHandle):
                steps()
                continue
            if self._begun(steps):
                self._running.append(steps)

    def _begun(self, steps: GenerationHandle) -> bool:
        """Set an answer up; where memory is short, once more without the rows of earlier ones. Else it has failed."""
        try:
            try:
                steps.begin()
            except Exception as error:
                if not (is_out_of_memory(error) and self.store.clear()):
                    raise
                log.warning("an answer found no memory to begin (%s); it begins again without kept rows", error)
                cleared = True
            else:
                cleared = False
            if cleared:  # out here, where the failure and what its frames hold are gone
                steps.begin()
        except Exception as failure:
            steps.fail(failure)
            return False
        return True

    def _advance(self) -> None:
        """One pass for all that run together, and one for each that runs alone."""
        together = [steps for steps in self._running if not steps.alone]
        groups = [together, *([steps] for steps in self._running if steps.alone)]
        self._running = [steps for group in groups if group for steps in self._step(group)]

    def _step(self, group: list[GenerationHandle]) -> list[GenerationHandle]:
        """One pass over a group. Returns those that go on.

        When the pass fails, nobody can say whose fault it was or what was already committed. Since an answer is a pure
        function of its prompt, each of several is begun anew and continues alone; one that fails alone has failed.
        """
        for steps in group:
            steps.pass_on_cancel()
        try:
            made = self._engine.step([steps.sequence for steps in group])
        except Exception as error:
            roomier = is_out_of_memory(error) and self.store.clear()
            if len(group) == 1 and not roomier:
                group[0].fail(error)
                return []
            log.warning("a pass over %d answers failed (%s); each goes on alone", len(group), error)
            alone: list[GenerationHandle] = []
            for steps in group:
                steps.alone = True
                if self._begun(steps):
                    alone.append(steps)
            return alone
        return [steps for steps, step in zip(group, made, strict=True) if self._goes_on(steps, step)]

    def _goes_on(self, steps: GenerationHandle, step: Step) -> bool:
        """Hand a step over; the rows of an answer that ends with it are kept first, for the turn that may follow."""
        if step.finish_reason is not None and steps.owner is not None:
            self._keep(steps.owner, steps.sequence)
        return steps.deliver(step)

    def _keep(self, owner: Owner, sequence: Generation) -> None:
        """Keep the rows of a finished answer; without the room for it they go, and all others with them."""
        try:
            prefix = sequence.detach_prefix()
            if prefix is not None:
                self.store.put(owner, prefix)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            log.warning("no memory to keep an answer's rows (%s); all kept rows are forgotten", error)
            self.store.clear()
