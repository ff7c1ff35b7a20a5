"""Deterministic fakes for tests of this package and of those built on it: tokenizers, an engine, a worker.

Nothing here needs a model's weights or the network; the worker needs a Redis, such as `EmbeddedRedis`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Unpack

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from workers.broker.app import make_app, make_redis
from workers.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from decoder import Generation, SamplingParams, Step, TokenSource
    from decoder.request import RequestOptions
    from retriever import Library
    from workers.worker.tasks import WorkerContext

SMOLLM_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a small assistant<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
QWEN_TEMPLATE = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are a made-up assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role != "system" or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
TOOLS_TEMPLATE = """{%- if tools %}
    {{- '<|im_start|>system\\nTools:\\n<tools>' }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role != "tool" and not message.tool_calls %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}
            {{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
CORPUS = (
    "The quick brown fox jumps over the lazy dog. What does the fox jump over? It jumps over the dog [1].\n"
    "Answer only from the passages below, and say so when they do not hold the answer.\n"
    "for index in range(10):\n    print(index)  # numbers\n",
    "Über die Brücke gehen viele Leute. 東京は日本の首都です。 Привет, мир! naïve café 😀🎉\n",
)
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def save_tokenizer(folder: Path, style: str = "smollm", corpus: Sequence[str] = CORPUS, size: int = 400) -> Path:
    """Write a small byte-level tokenizer and its chat template as a model folder holds them.

    `style` "smollm": control tokens first. "qwen": control tokens last, `<tool_call>` among them without being special,
    and another way to split. "tools": as "qwen", with a template that has tools. Returns the folder.
    """
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = Tokenizer(models.BPE())
    split: Any = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if style != "smollm":
        split = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_QWEN_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special if style == "smollm" else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if style != "smollm":
        tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<tool_call>", "</tool_call>")])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": special[0],
        "eos_token": special[2],
        "chat_template": {"smollm": SMOLLM_TEMPLATE, "qwen": QWEN_TEMPLATE, "tools": TOOLS_TEMPLATE}[style],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def speak(tokens: Tokens, text: str) -> Callable[[Sequence[int]], list[int]]:
    """A script that answers every prompt with `text`."""
    ids = tokens.encode_content(text).ids
    return lambda prompt: ids


class FakeEngine:
    """An engine that speaks from a script: the answer is a function of the prompt, committed a few ids at a time.

    Stops, limits, cancels and counts are those of the real engine's sequences.

    Args:
        tokens: gives the end token, which follows every scripted answer.
        script: prompt ids -> answer ids without the end token; by default a sentence about a fox.
        tokens_per_step: ids committed by a step after the first; all but the last count as accepted drafts, copied from
            the first prompt segment.
        window: most prompt and answer ids together.
        before_step: called with each sequence before its prefill (no tokens yet) and before its part of each pass; may
            block or raise.
        state: prompt ids -> what every layer that is read gives, a vector of one number.
        second: the script of answers that must not begin as they like; `script` if None.
    """

    def __init__(
        self,
        tokens: Tokens,
        script: Callable[[Sequence[int]], list[int]] | None = None,
        *,
        tokens_per_step: int = 3,
        window: int = 8192,
        before_step: Callable[[Generation], None] = lambda sequence: None,
        state: Callable[[Sequence[int]], float] = lambda prompt: 0.0,
        second: Callable[[Sequence[int]], list[int]] | None = None,
    ) -> None:
        self._state = state
        self._second = second
        self._end = sorted(tokens.eos_ids)
        self._script = script or speak(tokens, "The quick brown fox jumps over the lazy dog.")
        self._tokens_per_step = tokens_per_step
        self._before_step = before_step
        self.target = SimpleNamespace(max_positions=window, vocab_size=tokens.vocab_size)
        self._seconds: set[Generation] = set()
        self.passes: list[int] = []
        """How many sequences each pass held."""

    def start(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams | None = None,
        **options: Unpack[RequestOptions],
    ) -> Generation:
        """As `decoder.Engine.start`, errors included; there are no rows to reuse or keep."""
        import torch

        from decoder import Generation, PromptTooLong, SamplingParams
        from decoder.drafters import make_drafter
        from decoder.request import Request
        from decoder.sampling.stopping import StopStrings

        params = params or SamplingParams()
        request = Request(prompt_ids, params, **options)
        if len(prompt_ids) + params.max_tokens > self.target.max_positions:
            raise PromptTooLong(len(prompt_ids), params.max_tokens, self.target.max_positions)
        stop = StopStrings(params.stop, request.detokenize) if params.stop and request.detokenize else None
        plain = make_drafter(str(request.drafter or "off"))
        ends = frozenset(self._end)
        sequence = Generation(
            prompt_ids,
            params,
            request.segments,
            plain,
            None,
            ends,
            stop,
            max_nodes=request.max_nodes,
            corpora=request.corpora,
            domain=request.domain,
            resumed=request.resumed,
        )
        if params.openings and self._second is not None:
            self._seconds.add(sequence)
        if not request.resumed:
            sequence.states = {layer: torch.tensor([self._state(prompt_ids)]) for layer in request.read}
        return sequence

    def save(self) -> None:
        """Learns nothing."""

    def step(self, sequences: Sequence[Generation]) -> list[Step]:
        self.passes.append(len(sequences))
        return [self._commit(sequence, self._tokens_per_step if sequence.tokens else 1) for sequence in sequences]

    def _commit(self, sequence: Generation, count: int) -> Step:
        from decoder import DraftTree, Step
        from decoder.sampling.logprobs import TokenLogprob

        if sequence.finish_if_cancelled():
            return Step((), (), sequence.finish_reason)
        self._before_step(sequence)
        script = self._second if self._second is not None and sequence in self._seconds else self._script
        answer = [*script(sequence.prompt)[sequence.params.choice :], *self._end[:1]]
        first = len(sequence.tokens)
        sources = self._drafted(sequence, answer, count)
        tokens = sequence.extend(answer[first : first + len(sources) + 1])
        drafted = sources[: max(len(tokens) - 1, 0)]
        if first:
            sequence.stats.record(DraftTree.chain(tokens[:-1], drafted), drafted)
        logprobs: tuple[TokenLogprob, ...] = ()
        if sequence.params.logprobs is not None:
            tops = [tuple((token + more, -0.5 - more) for more in range(sequence.params.logprobs)) for token in tokens]
            logprobs = tuple(TokenLogprob(-0.5, top) for top in tops)
        return Step(tuple(tokens), (*drafted, None), sequence.finish_reason, logprobs)

    def _drafted(self, sequence: Generation, answer: Sequence[int], count: int) -> list[TokenSource]:
        """Sources of the draft tokens that a step of at most `count` tokens accepts; its last token is no draft."""
        from decoder import TokenSource

        return [TokenSource("fake", 0, len(sequence.tokens) + index) for index in range(count - 1)]


class QuotingEngine(FakeEngine):
    """Drafts what its script quotes from the prompt, and names the place; everything else comes one token a step.

    A run begins where two tokens before it match as well. With speculation off there are no drafts.
    """

    def _drafted(self, sequence: Generation, answer: Sequence[int], count: int) -> list[TokenSource]:
        from decoder import TokenSource

        first, prompt = len(sequence.tokens), sequence.prompt
        if first < 2 or sequence.drafter.name == "plain":
            return []
        best: list[TokenSource] = []
        start = 0
        for number, segment in enumerate(sequence.segments):
            for at in range(start + 2, start + segment.length):
                if prompt[at - 2 : at] != sequence.tokens[-2:]:
                    continue
                run, most = 0, min(count - 1, start + segment.length - at, len(answer) - first)
                while run < most and answer[first + run] == prompt[at + run]:
                    run += 1
                if run > len(best):
                    best = [TokenSource("copy", number, at - start + index) for index in range(run)]
            start += segment.length
        return best


def make_worker_context(
    redis_url: str,
    tokens: Tokens,
    engine: Any,
    library: Library | None = None,
    uploads_dir: Path = Path("uploads"),
    name: str = "fake",
    kv_cache_bytes: int = 0,
    lapse_s: int = 5,
    **options: Any,
) -> WorkerContext:
    """A workplace around any engine; close it."""
    from workers.upstream.runtime import UpstreamRuntime
    from workers.worker.kv_store import KvStore
    from workers.worker.runtime import Runtime
    from workers.worker.tasks import WorkerContext

    runtime = engine if isinstance(engine, UpstreamRuntime) else Runtime(engine, tokens, KvStore(kv_cache_bytes))
    client = make_redis(redis_url)
    return WorkerContext(client, tokens, runtime, library, uploads_dir, name, lapse_s=lapse_s, **options)


@contextlib.contextmanager
def running_worker(
    redis_url: str, place: WorkerContext, *, info: dict[str, Any] | None = None, threads: int = 4
) -> Iterator[None]:
    """A real Celery worker on threads of this process, with its heartbeat; entered once it is listed; several may run.

    At the end running answers go back to the queue, and the workplace is closed.
    """
    from celery.concurrency.thread import TaskPool
    from celery.exceptions import WorkerShutdown
    from celery.worker import WorkController
    from kombu.asynchronous import get_event_loop, set_event_loop

    from workers.broker.app import GENERATE_QUEUE, INGEST_QUEUE
    from workers.sessions.routing import own_queue
    from workers.worker.heartbeat import Heartbeat
    from workers.worker.tasks import register

    app = make_app(redis_url)
    register(app, place)

    class Pool(TaskPool):  # type: ignore[misc]
        """Its threads look tasks up in this worker's application; Celery's own take the process's default."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.executor = ThreadPoolExecutor(self.limit, initializer=app.set_current)

    def shut_down() -> None:
        raise WorkerShutdown(0)

    ready, seen = threading.Event(), threading.Event()
    others = get_event_loop()
    set_event_loop(None)  # Celery shares one loop among all workers of a process, which cannot then end one by one
    worker = WorkController(
        app=app,
        hostname=f"rag@{place.name}",
        pool=Pool,
        concurrency=threads,
        queues=[GENERATE_QUEUE, INGEST_QUEUE, own_queue(place.name)],
        ready_callback=lambda consumer: ready.set(),
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    set_event_loop(others)
    thread = threading.Thread(target=worker.start, name=f"worker-{place.name}", daemon=True)

    def after_beat() -> None:
        seen.set()
        place.after_beat(app)

    heartbeat = Heartbeat(
        place.client,
        place.name,
        lambda: {**(info or {"model": "fake"}), **place.state(), "places": threads},
        lambda: place.runtime.alive,
        after_beat,
        interval_s=0.2,
    )
    thread.start()
    try:
        if not ready.wait(30):
            raise RuntimeError("the worker did not become ready within 30 s; is Redis running?")
        heartbeat.start()
        if not seen.wait(30):
            raise RuntimeError("the worker's first heartbeat did not come within 30 s; is Redis running?")
        yield
    finally:
        heartbeat.stop()
        place.runtime.close()
        worker.hub.call_soon(shut_down)
        thread.join(30)
        place.close()
        app.close()
        place.client.close()
