"""`bench decode` from its arguments to its files: the model opened, modes compared, results written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch

from decoder.bench.decode.divergence import divergence, lines
from decoder.bench.decode.interleaved import Say, compare, modes_of
from decoder.bench.decode.outcomes import PromptsFile, prompts_path
from decoder.bench.decode.peers import Peers, is_peer
from decoder.bench.decode.promise import AUTO, overheads, promise
from decoder.bench.decode.report import decode_markdown
from decoder.bench.decode.rows import PLAIN, decode_rows, differences
from decoder.bench.simulated.report import write_json
from decoder.planning import cost_curve
from decoder.planning.calibration import load_or_measure
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.environment import environment
from decoder.recording.opened import Opened, open_model, open_stock
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
        from decoder.bench.decode.plots import require_matplotlib

        require_matplotlib()  # a missing package is told before hours of work, not after
    opened = open_model(
        options.model,
        dtype=options.dtype,
        device=options.device,
        models_dir=options.models_dir,
        draft_model=options.draft_model,
        eagle_head=options.eagle_head,
        sdsat_adapters=options.sdsat_adapters,
    )
    engine = opened.engine
    if options.near_tie is not None:
        engine.near_tie = options.near_tie
    settings: dict[str, object] = {
        **{"model": opened.name, "dtype": options.dtype, "device": options.device, "near_tie": engine.near_tie},
        **{"max_tokens": params.max_tokens, "temperature": params.temperature, "seed": params.seed},
        "draft_model": options.draft_model,
        "eagle_head": options.eagle_head,
        "sdsat_adapters": options.sdsat_adapters,
    }
    if options.cost_64 is not None:
        settings["assumed_cost_of_64_rows"] = options.cost_64
    run = {**settings, "modes": modes, "control": options.control, "threads": torch.get_num_threads()}
    valued = any(not is_peer(mode) and make_from_spec(split_exact(mode)[0]).valued for mode in modes)
    if valued:
        engine.context.cost = load_or_measure(engine.target, None)
        if options.cost_64 is not None:
            engine.context.cost = AssumedCurve(engine.context.cost.costs(0, 1, 0)[0], options.cost_64)
    measured_curve = engine.context.cost.to_json() if valued else None
    file = PromptsFile(prompts_path(options.json), run)
    outcomes = compare(
        engine, opened.chat, items, params, modes, file, say, options.control, peers=_peers(opened, options)
    )
    if not outcomes:
        raise BenchError("no prompt was answered; give shorter items or fewer --max-tokens")
    rows = decode_rows(outcomes, modes, model=opened.name, dtype=options.dtype)
    result: dict[str, object] = {"environment": environment(options.line, **settings), "rows": rows}
    result["differences"] = differences(outcomes)
    result["divergence"] = found = divergence(outcomes, modes, PLAIN)
    curve = None
    if measured_curve is not None:
        seconds = engine.context.cost.to_json()
        curve = {"rows": list(cost_curve.ROWS), "seconds": seconds, "seconds_at_start": measured_curve}
    result["cost_curve"] = curve
    result["promise"] = promise(outcomes, modes) if AUTO in modes else []
    result["overhead"] = overheads(outcomes, modes)
    result["memory"] = engine.context.memory()
    write_json(options.json, result)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(decode_markdown(result), encoding="utf-8")
    if options.plots:
        from decoder.bench.decode.plots import draw

        draw(rows, options.plots, curve)
    for line in lines(found):
        say(line)
    say(f"wrote {options.json}; the answers stay in {prompts_path(options.json)}")


def _peers(opened: Opened, options: argparse.Namespace) -> Peers:
    engine = opened.engine
    draft = engine.context.draft_model

    def load(name: str) -> object:
        if draft is not None and name == options.draft_model:
            return draft.model
        return open_stock(name, dtype=options.dtype, device=options.device, models_dir=options.models_dir)

    return Peers(engine.target, sorted(engine.eos_token_ids), load)
