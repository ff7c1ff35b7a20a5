"""`bench sessions` from its options to its files: conversations held in every mode, compared, written down."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from decoder.bench.decode.divergence import greedy_margins
from decoder.bench.decode.plots import require_matplotlib
from decoder.bench.results import write_json
from decoder.recording.environment import environment
from rag_service.answering.models import model_folder
from rag_service.bench import report
from rag_service.bench.conversations import LONG, load_material
from rag_service.bench.hold import How, Mode, Say, hold, modes_of
from rag_service.bench.outcomes import TalkedFile, talked_path
from rag_service.bench.plots import draw
from rag_service.bench.rows import PLAIN, Difference, Held, differences, follow_ups, grouped, session_rows
from rag_service.bench.stack import OwnStack, RunningStacks, Stacks
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings
from workers.tokens.tokenizer import Tokens


def run_sessions(options: argparse.Namespace, say: Say) -> int:
    """Exit status: 0; 1 where texts differ in other ways than the rule for float32 allows; 130 where it was stopped.

    A run that is stopped still sums up the conversations that are complete.

    Raises:
        BenchError, InvalidSettings, RagError: it cannot run; the message says what to do.
    """
    if options.plots:
        require_matplotlib()  # a missing package is told before the work, not after
    settings = load_settings(**({"model": options.model} if options.model else {})) if options.url is None else None
    two_stacks = settings is not None or options.url_without_reuse is not None
    modes = modes_of(options.drafter, two_stacks)
    material = load_material(
        options.data,
        limit=options.limit,
        max_chars=options.max_chars,
        long_tokens=options.long,
        count=_counter(settings),
    )
    facts: dict[str, object] = {} if settings is None else _how(settings)
    facts |= {"max_tokens": options.max_tokens, "top_k": options.top_k, "modes": list(modes)}
    file = TalkedFile(talked_path(options.json), {**facts, "material": material.digest})
    there = file.read()
    stopped = False
    how = How(max_tokens=options.max_tokens, top_k=options.top_k, two_stacks=two_stacks)
    try:
        with contextlib.ExitStack() as stack:
            if settings is None:
                running = RunningStacks(options.url, options.url_without_reuse, options.api_key)
                stacks: Stacks = stack.enter_context(running)
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rag-bench-"))
                stacks = stack.enter_context(OwnStack(Path(folder), settings, say))
            hold(stacks, material, modes, there, file.add, say, how)
    except KeyboardInterrupt:
        stopped = True
        say("stopped; the same command goes on where it was")
    held = {name: found for name, found in grouped(file.read()).items() if len(found) == len(modes)}
    if not held:
        return 130
    result = _result(held, modes, settings, environment(options.line, **facts, note=options.note))
    write_json(options.json, result)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(report.markdown(result), encoding="utf-8")
    curve = [row for row in result["rows"] if row["benchmark"] != LONG]
    if options.plots and curve:
        say(f"drew {draw(curve, [options.drafter, PLAIN], options.plots)}")
    for line in report.said(result):
        say(line)
    say(f"wrote {options.json}; the conversations stay in {talked_path(options.json)}")
    if stopped:
        return 130
    return 0 if result["identical"]["holds"] else 1


def _result(
    held: Held, modes: Mapping[str, Mode], settings: Settings | None, facts: Mapping[str, object]
) -> dict[str, Any]:
    found, compared = differences(held, list(modes))
    if settings is not None:
        _measure_margins(found, held, settings)
    drafter, *without = [mode for mode in modes if mode != PLAIN]
    return {
        "environment": facts,
        "rows": session_rows(held, list(modes)),
        "follow_ups": follow_ups(held, drafter, without[0]) if without else None,
        "identical": {
            "conversations": len(held),
            "tokens_compared": compared,
            "differences": found,
            "holds": report.holds(found, compared),
        },
    }


def _measure_margins(found: list[Difference], held: Held, settings: Settings) -> None:
    """Fill in how sure plain was where another mode left it."""
    places = [held[one["conversation"]][PLAIN].turns[one["turn"] - 1] for one in found]
    known = [(one, turn) for one, turn in zip(found, places, strict=True) if one["what"] == "ids" and turn.prompt_ids]
    if not known:
        return
    margins = greedy_margins(
        str(model_folder(settings.model, settings.models_folder)),
        [(turn.prompt_ids, turn.ids, one["index"] or 0) for one, turn in known],
        dtype=settings.dtype,
        device=settings.device,
    )
    for (one, _), margin in zip(known, margins, strict=True):
        one["margin"] = margin


def _how(settings: Settings) -> dict[str, object]:
    return {"model": Path(settings.model).name, "dtype": settings.dtype, "device": settings.device}


def _counter(settings: Settings | None) -> Callable[[str], int]:
    """Tokens of a text; a guess where the model's tokenizer is not here."""
    with contextlib.suppress(InvalidSettings, FileNotFoundError):
        if settings is not None:
            tokens = Tokens.load(model_folder(settings.model, settings.models_folder))
            return lambda text: len(tokens.encode_content(text).ids)
    return lambda text: len(text) // 4
