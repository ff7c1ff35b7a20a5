"""`bench replay`: the speed of decoding at a model's shape, with random weights and recorded choices.

Passes, drafting, selection, batching and caches are real. Prompts are processed outside the clock; an answer that ends
is replaced by the next, so that the number of answers at once is the same throughout. Steps that capture a graph are
outside the clock too, with their tokens.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from decoder import dtypes
from decoder.bench.replayed.graph_loop import tokens_per_second
from decoder.bench.replayed.shapes import random_model
from decoder.bench.replayed.steered_target import SteeredTarget
from decoder.bench.results import Row, environment_lines, table, write_json, write_markdown
from decoder.drafters.context import DrafterContext
from decoder.engine import Engine
from decoder.generation import Generation
from decoder.model.linear.quantise import quantise
from decoder.planning.calibration import measure
from decoder.planning.draft_gate import Drafting
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError
from decoder.recording.record import Recording, read_recordings
from decoder.recording.specs import split_specs
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    dtypes.INT8: torch.bfloat16,
}
"""Number formats of activations, and of weights that are not int8."""


def run_replay(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """`bench replay` from its parsed arguments."""
    recordings = [recording for path in options.recorded for recording in read_recordings(path)]
    rows = replay_shape(
        options.shape,
        recordings,
        split_specs(options.drafters),
        options.at_once,
        options.device,
        options.dtype,
        say,
        graphs=options.graphs,
        answers=options.answers,
    )
    facts = environment(options.line, shape=options.shape, dtype=options.dtype, device=options.device)
    write_json(options.json, {"environment": facts, "rows": rows})
    write_markdown(options.markdown, "\n".join([*replay_table(rows), "", *environment_lines(facts)]))


def replay_shape(
    shape: str,
    recordings: Sequence[Recording],
    drafters: Sequence[str],
    at_once: Sequence[int],
    device: str,
    dtype: str,
    say: Callable[[str], None],
    *,
    graphs: bool = True,
    answers: int = 24,
) -> list[Row]:
    """Replay recordings on a random model, each drafter at each number of answers at once.

    Args:
        at_once: numbers of answers decoded together.
        graphs: whether a GPU may use CUDA graphs.
        answers: answers of a run, at least twice the number at once.

    Returns:
        a row by number and drafter: tokens, passes, seconds, tokens a second, MAT, milliseconds a step of drafting and
        of the pass with its choices.

    Raises:
        BenchError: there are no recordings, no such shape, or the device has no such number format.
    """
    if not recordings:
        raise BenchError("there are no recorded answers; write some with `rag bench record`")
    if reason := dtypes.problem(dtype, device):
        raise BenchError(reason)
    if dtype == dtypes.INT4:
        raise BenchError("random weights have no GGUF file, so they cannot run as int4; choose int8")
    model = random_model(shape, device, DTYPES[dtype])
    if dtype == dtypes.INT8:
        quantise(model)
    rows: list[Row] = []
    if graphs and device.startswith("cuda"):
        speed = tokens_per_second(model)
        row: Row = {"tokens_per_second": speed, "mat": 1.0, "step_ms": 1e3 / speed, "draft_ms": 0.0}
        rows.append(row | {"shape": shape, "drafter": "hand-written loop", "at_once": 1, "graphs": True})
        say(f"{shape}, hand-written loop: {speed:.0f} tokens a second")
    target = SteeredTarget(model, graphs=graphs)
    if graphs and target.graphs is None:
        say(f"without graphs: {target.graphs_problem}")
    cost = measure(target)
    for count in at_once:
        for drafter in drafters:
            drafting = None if target.device.type == "cpu" else Drafting()
            engine = Engine(target, drafter, context=DrafterContext(cost=cost, drafting=drafting))
            row = _run(engine, target, recordings, count, max(answers, 2 * count))
            row |= {"shape": shape, "drafter": drafter, "at_once": count, "graphs": target.graphs is not None}
            rows.append(row)
            say(
                f"{shape}, {count} at once, {drafter}: {row['tokens_per_second']:.0f} tokens a second, MAT "
                f"{row['mat']:.2f}, a step {row['step_ms']:.2f} ms, of it drafting {row['draft_ms']:.2f}"
            )
    return rows


def replay_table(rows: Sequence[Row]) -> list[str]:
    """A Markdown table of tokens a second, with the ratio to `plain` at the same number of answers."""
    plain = {(row["shape"], row["at_once"], row["graphs"]): row for row in rows if row["drafter"] == "plain"}
    body = []
    for row in rows:
        base = plain.get((row["shape"], row["at_once"], row["graphs"]))
        ratio = f"{row['tokens_per_second'] / base['tokens_per_second']:.2f}" if base else ""
        figures = (row["tokens_per_second"], row["mat"], row["step_ms"], row["draft_ms"])
        kind = row["drafter"] + ("" if row["graphs"] else ", without graphs")
        body.append([row["shape"], kind, str(row["at_once"]), *(f"{value:.2f}" for value in figures), ratio])
    head = ("shape", "drafter", "at once", "tokens/s", "MAT", "ms a step", "of it drafting", "× plain")
    return table(head, body, left=2)


def _run(engine: Engine, target: SteeredTarget, recordings: Sequence[Recording], count: int, answers: int) -> Row:
    """Decode `answers` recordings, `count` at once."""
    waiting: Iterator[Recording] = itertools.islice(itertools.cycle(recordings), answers)
    running = [_start(engine, target, recording) for recording in itertools.islice(waiting, count)]
    tokens = passes = 0
    seconds = 0.0
    drafting: list[float] = []
    while len(running) == count:
        before = [(s.stats.steps, s.stats.ms["draft"]) for s in running]
        captured, started = target.captured, time.perf_counter()
        steps = engine.step(running)
        elapsed = time.perf_counter() - started
        if captured == target.captured:
            seconds += elapsed
            passes += 1
            tokens += sum(len(step.tokens) for step in steps)
            drafting.append(sum(s.stats.ms["draft"] - ms for s, (_, ms) in zip(running, before, strict=True)))
        for sequence in [one for one in running if one.finished]:
            target.check(sequence.cache, sequence.tokens)
            running.remove(sequence)
            target.forget(sequence.cache)
            following = next(waiting, None)
            if following is not None:
                running.append(_start(engine, target, following))
    for sequence in running:
        target.forget(sequence.cache)
    if not passes:
        raise BenchError("no pass was timed; replay more answers")
    return {
        "tokens": tokens,
        "passes": passes,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "mat": tokens / passes / count,
        "step_ms": 1e3 * seconds / passes,
        "draft_ms": sum(drafting) / passes,
    }


def _start(engine: Engine, target: SteeredTarget, recording: Recording) -> Generation:
    """A sequence whose prompt is processed."""
    options: dict[str, Any] = {"domain": recording.benchmark}
    if recording.segments:
        options["segments"] = [PromptSegment(kind, length) for kind, length in recording.segments]
    params = SamplingParams(max_tokens=len(recording.output_ids), ignore_eos=True)
    sequence = engine.start(recording.prompt_ids, params, **options)
    target.steer(sequence.cache, recording)
    engine.prefill(sequence)
    return sequence
