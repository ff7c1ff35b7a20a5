"""`bench sessions` from its options to its files: conversations run in every mode, compared, summed up."""

from __future__ import annotations

import argparse
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
from rag_service.bench.outcomes import MeasuredFile, measured_path
from rag_service.bench.plots import draw
from rag_service.bench.rows import PLAIN, ByMode, Difference, differences, follow_ups, grouped, session_rows
from rag_service.bench.schedule import Mode, modes_of, run_conversations
from rag_service.bench.stack import Stack
from rag_service.settings import Settings, load_settings
from workers.tokens.tokenizer import Tokens


def run_sessions(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Exit status: 0; 1 if texts differ in other ways than the rule for float32 allows; 130 if interrupted.

    An interrupted run still sums up the conversations that are complete.

    Raises:
        BenchError, InvalidSettings, RagError: it cannot run; the message says what to do.
    """
    if options.plots:
        require_matplotlib()  # fails before the work, not after
    settings = load_settings(**({"model": options.model} if options.model else {}))
    folder = model_folder(settings.model, settings.models_folder)
    tokens = Tokens.load(folder)
    material = load_material(
        options.data,
        limit=options.limit,
        max_chars=options.max_chars,
        long_tokens=options.long,
        count=lambda text: len(tokens.encode_content(text).ids),
    )
    modes = modes_of(options.drafter)
    facts: dict[str, object] = {
        "model": Path(settings.model).name,
        "dtype": settings.number_format,
        "device": settings.device,
        "max_tokens": options.max_tokens,
        "top_k": options.top_k,
        "modes": list(modes),
    }
    file = MeasuredFile(measured_path(options.json), {**facts, "material": material.digest})
    done = {(measured.id, measured.mode) for measured in file.read()}
    interrupted = False
    try:
        with (
            tempfile.TemporaryDirectory(prefix="rag-bench-") as data_dir,
            Stack(Path(data_dir), settings, say) as stack,
        ):
            limits = {"max_tokens": options.max_tokens, "top_k": options.top_k}
            run_conversations(stack, material, modes, done, file.add, say, **limits)
    except KeyboardInterrupt:
        interrupted = True
        say("stopped; run the same command again to continue")
    complete = {name: by_mode for name, by_mode in grouped(file.read()).items() if len(by_mode) == len(modes)}
    if not complete:
        return 130
    result = _result(complete, modes, settings, environment(options.line, **facts, note=options.note))
    write_json(options.json, result)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(report.markdown(result), encoding="utf-8")
    curve = [row for row in result["rows"] if row["benchmark"] != LONG]
    if options.plots and curve:
        say(f"drew {draw(curve, [options.drafter, PLAIN], options.plots)}")
    for line in report.differences_lines(result):
        say(line)
    say(f"wrote {options.json}; the conversations are in {measured_path(options.json)}")
    if interrupted:
        return 130
    return 0 if result["identical"]["holds"] else 1


def _result(
    conversations: ByMode, modes: Mapping[str, Mode], settings: Settings, facts: Mapping[str, object]
) -> dict[str, Any]:
    first_differences, compared = differences(conversations, list(modes))
    _measure_margins(first_differences, conversations, settings)
    drafter, without_reuse, _ = modes
    return {
        "environment": facts,
        "rows": session_rows(conversations, list(modes)),
        "follow_ups": follow_ups(conversations, drafter, without_reuse),
        "identical": {
            "conversations": len(conversations),
            "tokens_compared": compared,
            "differences": first_differences,
            "holds": report.holds(first_differences, compared),
        },
    }


def _measure_margins(first_differences: list[Difference], conversations: ByMode, settings: Settings) -> None:
    """Set plain's margin of the differences in tokens whose prompt is known."""
    measurable = []
    for difference in first_differences:
        turn = conversations[difference["conversation"]][PLAIN].turns[difference["turn"] - 1]
        if difference["what"] == "ids" and turn.prompt_ids:
            measurable.append((difference, (turn.prompt_ids, turn.ids, difference["index"] or 0)))
    if not measurable:
        return
    margins = greedy_margins(
        str(model_folder(settings.model, settings.models_folder)),
        [place for _, place in measurable],
        dtype=settings.number_format,
        device=settings.device,
    )
    for (difference, _), margin in zip(measurable, margins, strict=True):
        difference["margin"] = margin
