"""`bench decode` from its arguments to its files: open the model, compare the modes, write the results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from decoder.bench.decode.divergence import divergence, lines
from decoder.bench.decode.interleaved import Say, compare, modes_of
from decoder.bench.decode.outcomes import PromptsFile, prompts_path
from decoder.bench.decode.peers import Peers, is_peer
from decoder.bench.decode.plots import draw, require_matplotlib
from decoder.bench.decode.report import decode_markdown
from decoder.bench.decode.rows import PLAIN, decode_rows, differences
from decoder.bench.decode.slowdown_check import AUTO, compare_speeds, overheads
from decoder.bench.results import write_json, write_markdown
from decoder.drafters.auto.core_choice import compiled_core
from decoder.planning import cost_curve
from decoder.planning.calibration import load_or_measure
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.environment import environment
from decoder.recording.loaded_model import LoadedModel, open_model, open_transformers_model
from decoder.recording.prompts import BenchError, Item
from decoder.recording.specs import make_from_spec, split_exact
from decoder.sampling.params import SamplingParams


def run_decode(options: argparse.Namespace, items: Sequence[Item], say: Say) -> None:
    """`bench decode` from its parsed arguments."""
    modes = modes_of(options.drafters)
    params = SamplingParams(max_tokens=options.max_tokens, temperature=options.temperature, seed=options.seed)
    if params.temperature > 0 and any(map(is_peer, modes)):
        raise BenchError("hf modes are compared token by token, so they are greedy; leave --temperature out")
    if options.plots:
        require_matplotlib()  # before hours of work, not after
    drafter_files = {name: getattr(options, name) for name in ("draft_model", "eagle_head", "sdsat_adapters")}
    loaded = open_model(
        options.model, dtype=options.dtype, device=options.device, models_dir=options.models_dir, **drafter_files
    )
    engine = loaded.engine
    if options.near_tie is not None:
        engine.near_tie = options.near_tie
    settings: dict[str, object] = {
        **{"model": loaded.name, "dtype": options.dtype, "device": options.device, "near_tie": engine.near_tie},
        **{"max_tokens": params.max_tokens, "temperature": params.temperature, "seed": params.seed},
        **drafter_files,
    }
    if options.cost_64 is not None:
        settings["assumed_cost_of_64_rows"] = options.cost_64
    curve: dict[str, Any] | None = None
    if any(not is_peer(mode) and make_from_spec(split_exact(mode)[0]).valued for mode in modes):
        engine.context.cost = load_or_measure(engine.target, None)
        if options.cost_64 is not None:
            engine.context.cost = AssumedCurve(engine.context.cost.costs(0, 1, 0)[0], options.cost_64)
        curve = {"rows": list(cost_curve.ROWS), "seconds": {}, "seconds_at_start": engine.context.cost.to_json()}
    run = {**settings, "modes": modes, "control": options.control, "threads": torch.get_num_threads()}
    file = PromptsFile(prompts_path(options.json), run)
    outcomes = compare(
        engine, loaded.chat, items, params, modes, file, say, options.control, peers=_peers(loaded, options)
    )
    if not outcomes:
        raise BenchError("no prompt was answered; give shorter items or fewer --max-tokens")
    if curve is not None:
        curve["seconds"] = engine.context.cost.to_json()
    result: dict[str, Any] = {
        "environment": environment(
            options.line, **settings, auto_core="readable" if compiled_core() is None else "compiled"
        ),
        "rows": decode_rows(outcomes, modes, model=loaded.name, dtype=options.dtype),
        "differences": differences(outcomes),
        "divergence": divergence(outcomes, modes, PLAIN),
        "cost_curve": curve,
        "promise": compare_speeds(outcomes, modes) if AUTO in modes else [],
        "overhead": overheads(outcomes, modes),
        "memory": engine.context.memory(),
    }
    write_json(options.json, result)
    write_markdown(options.markdown, decode_markdown(result))
    if options.plots:
        draw(result["rows"], options.plots, curve)
    for line in lines(result["divergence"]):
        say(line)
    say(f"wrote {options.json}; the answers stay in {prompts_path(options.json)}")


def _peers(loaded: LoadedModel, options: argparse.Namespace) -> Peers:
    engine = loaded.engine
    draft = engine.context.draft_model

    def load(name: str) -> object:
        if draft is not None and name == options.draft_model:
            return draft.model
        return open_transformers_model(name, dtype=options.dtype, device=options.device, models_dir=options.models_dir)

    return Peers(engine.target, sorted(engine.eos_token_ids), load)
