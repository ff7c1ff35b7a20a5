"""Peers: transformers' own `generate` on the weights the engine has loaded, measured like the engine's answers.

    hf                                               plain decoding
    hf:prompt_lookup=10[:max_matching_ngram_size=3]  prompt lookup
    hf:assistant=MODEL[:num_assistant_tokens=5]      an assistant model; without options, transformers' defaults

The weights are not loaded twice: for a peer's run the model gets its stock attention ("sdpa") back and a generation
config without the model's own sampling defaults. Switching takes less than a millisecond, outside the measured time.
Packed layers multiply as stock ones do then, and a switched model is as fast as one that was never switched. Tiled
layers (`model/linear/tiled_linear.py`) stay: there a peer's passes are as fast as ours, not as transformers' own.

A peer's decode time starts like the engine's, when the first pass has chosen its tokens. transformers already drafts
in that pass, so it may choose several: `TimedAnswer.first` has their number, and rates count the tokens after them. An
assistant processes the prompt before that pass, which is prefill time here; for the engine's `small_model` it is decode
time.

Knows transformers' generate and the target's weights; knows no drafter.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from decoder.bench.decode.timing import TimedAnswer
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.recording.specs import Option, parse_spec
from decoder.sampling.params import SamplingParams

PEER = "hf"
OTHERS = ("llama.cpp",)
"""Peers that the scripts in `benchmarks/` run."""
STOCK = "sdpa"
_LOOKUP = {"prompt_lookup": "prompt_lookup_num_tokens", "max_matching_ngram_size": "max_matching_ngram_size"}
_ASSISTANT = ("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold")


class PeerRunner(Protocol):
    """Answers prompts in peer modes (`is_peer`), as `Peers` does."""

    def measure(self, spec: str, prompt_ids: list[int], params: SamplingParams) -> TimedAnswer: ...


def is_peer(spec: str) -> bool:
    return spec.split(":", 1)[0] in {PEER, *OTHERS}


@dataclass(frozen=True, slots=True)
class PeerMode:
    """One way to call `generate`.

    Attributes:
        settings: of the target's generation config.
        assistant: name of the assistant model, or None.
        assistant_settings: of the assistant's generation config.
    """

    settings: dict[str, Option] = field(default_factory=dict)
    assistant: str | None = None
    assistant_settings: dict[str, Option] = field(default_factory=dict)

    @classmethod
    def parse(cls, spec: str) -> PeerMode:
        """Raises BenchError for options that do not exist or cannot be combined."""
        name, options = parse_spec(spec)
        if name != PEER:
            raise BenchError(f"{spec!r} does not run here; see benchmarks/README.md")
        assistant = options.pop("assistant", None)
        for option in set(options).difference(_LOOKUP if assistant is None else _ASSISTANT):
            raise BenchError(
                f"{spec!r} has the option {option!r}; there are hf, hf:prompt_lookup=N[:max_matching_ngram_size=N] "
                f"and hf:assistant=MODEL with {', '.join(_ASSISTANT)}"
            )
        if assistant is not None:
            return cls({}, str(assistant), options)
        if options and "prompt_lookup" not in options:
            raise BenchError(f"{spec!r} looks up nothing; write hf:prompt_lookup=10:max_matching_ngram_size=…")
        for option, value in options.items():
            if type(value) is not int or value < 1:
                raise BenchError(f"{spec!r}: {option} must be a whole number of at least 1, got {value}")
        return cls({_LOOKUP[option]: value for option, value in options.items()})


class Peers:
    """Runs peers on the engine's target.

    Args:
        target: its model is switched while a peer runs.
        end_tokens: tokens that end an answer, as for the engine.
        load: loads an assistant, a transformers causal LM, by name; called once per name, outside the measured time.
    """

    def __init__(self, target: TargetModel, end_tokens: Sequence[int], load: Callable[[str], Any]) -> None:
        self._target = target
        self._end_tokens = sorted(end_tokens)
        self._assistant = functools.cache(load)

    def measure(self, spec: str, prompt_ids: list[int], params: SamplingParams) -> TimedAnswer:
        """Generate one greedy answer and time it. Only max_tokens and ignore_eos of `params` apply."""
        mode = PeerMode.parse(spec)
        model = self._target.model
        ends = [] if params.ignore_eos else self._end_tokens
        config = GenerationConfig(
            do_sample=False,
            max_new_tokens=params.max_tokens,
            eos_token_id=ends or None,
            pad_token_id=self._end_tokens[0] if self._end_tokens else 0,
            **mode.settings,
        )
        ids = torch.tensor([prompt_ids], device=self._target.device)
        clock = _FirstTokens(len(prompt_ids))
        with ExitStack() as stack:
            stack.enter_context(_stock(model, GenerationConfig()))
            assisted = {}
            if mode.assistant is not None:
                assistant = self._assistant(mode.assistant)
                stack.enter_context(_stock(assistant, GenerationConfig(**mode.assistant_settings)))
                assisted["assistant_model"] = assistant
            rows = stack.enter_context(_counted(model))
            stack.enter_context(torch.inference_mode())
            started = time.perf_counter()
            output = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                stopping_criteria=StoppingCriteriaList([clock]),
                **assisted,
            )
            tokens: list[int] = output[0, len(prompt_ids) :].tolist()
            ended = time.perf_counter()
        drafted, accepted = sum(rows) - len(prompt_ids) - (len(rows) - 1), len(tokens) - len(rows)
        return TimedAnswer(
            tokens=tokens,
            finish_reason="stop" if tokens[-1] in ends else "length",
            prefill_s=clock.time - started,
            decode_s=ended - clock.time,
            steps=len(rows) - 1,
            drafted=drafted,
            accepted=accepted,
            copied=accepted if mode.settings else 0,
            first=clock.tokens,
            by_source={PEER: [drafted, accepted]} if drafted else {},
        )


class _FirstTokens(StoppingCriteria):  # type: ignore[misc]
    """Never stops; records when the first tokens are on the host, and how many there are."""

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self.time = 0.0
        self.tokens = 0

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if not self.tokens:
            self.tokens = input_ids.shape[1] - self._prompt_tokens
            input_ids[0, -1].item()  # waits for the device
            self.time = time.perf_counter()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


@contextmanager
def _stock(model: Any, defaults: GenerationConfig) -> Iterator[None]:
    """Give the model transformers' attention and these generation defaults inside the block."""
    attention, generation = model.config._attn_implementation, model.generation_config
    model.set_attn_implementation(STOCK)
    model.generation_config = defaults
    try:
        yield
    finally:
        model.generation_config = generation
        model.set_attn_implementation(attention)


@contextmanager
def _counted(model: Any) -> Iterator[list[int]]:
    """The number of rows of every forward pass inside the block."""
    rows: list[int] = []

    def count(_model: Any, _inputs: Any, named: dict[str, Any]) -> None:
        rows.append(named["input_ids"].shape[1])

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield rows
    finally:
        hook.remove()
