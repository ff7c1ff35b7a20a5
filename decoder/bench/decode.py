"""`bench decode`: drafters against plain decoding on a model, prompt by prompt in one process.

Every prompt is answered by every mode before the next prompt comes, each time in another order, so that whatever else
the machine does falls on all modes alike and times can be compared as pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from decoder.bench.chat import Chat
from decoder.bench.divergence import control_flips, divergence, lines, plain_margins
from decoder.bench.environment import environment
from decoder.bench.measure import Measured, first_difference, measure
from decoder.bench.opened import open_model
from decoder.bench.outcomes import Difference, Outcome, PartialFile
from decoder.bench.prompts import BenchError, Item
from decoder.bench.report import write_json
from decoder.bench.rows import PLAIN, decode_rows, differences
from decoder.bench.specs import make_from_spec, split_exact, split_specs
from decoder.engine import Engine
from decoder.errors import PromptTooLong
from decoder.params import SamplingParams

WARM_UP_TOKENS = 4
Say = Callable[[str], None]


def run_decode(options: argparse.Namespace, items: Sequence[Item], say: Say) -> None:
    """`bench decode` from its parsed arguments."""
    modes = modes_of(options.drafters)
    params = SamplingParams(max_tokens=options.max_tokens, temperature=options.temperature, seed=options.seed)
    if options.plots:
        from decoder.bench.plots import require_matplotlib

        require_matplotlib()  # a missing package is told before hours of work, not after
    opened = open_model(options.model, dtype=options.dtype, device=options.device, models_dir=options.models_dir)
    facts: dict[str, object] = {"model": opened.name, "dtype": options.dtype, "device": options.device}
    if options.near_tie is not None:
        opened.engine.near_tie = options.near_tie
    facts["near_tie"] = opened.engine.near_tie
    settings = {**facts, "max_tokens": params.max_tokens, "temperature": params.temperature, "seed": params.seed}
    run = {**settings, "modes": modes, "control": options.control}
    partial = PartialFile(options.json.with_name(options.json.name + ".partial"), run)
    outcomes = compare(opened.engine, opened.chat, items, params, modes, partial, say, control=options.control)
    if not outcomes:
        raise BenchError("no prompt was answered; give shorter items or fewer --max-tokens")
    rows = decode_rows(outcomes, modes, model=opened.name, dtype=options.dtype)
    result = {"environment": environment(options.line, **settings), "rows": rows}
    result["differences"] = differences(outcomes)
    result["divergence"] = found = divergence(outcomes, modes, PLAIN)
    write_json(options.json, result)
    partial.remove()
    if options.plots:
        from decoder.bench.plots import draw

        draw(rows, options.plots)
    for line in lines(found):
        say(line)
    say(f"wrote {options.json}")


def modes_of(drafters: str) -> list[str]:
    """Plain first, then the drafters asked for; each spec is tried."""
    modes = [PLAIN, *(spec for spec in split_specs(drafters) if spec not in {PLAIN, "off"})]
    for spec in modes:
        make_from_spec(split_exact(spec)[0])
    return modes


def compare(
    engine: Engine,
    chat: Chat,
    items: Iterable[Item],
    params: SamplingParams,
    modes: Sequence[str],
    partial: PartialFile,
    say: Say = lambda line: None,
    control: bool = False,
) -> list[Outcome]:
    """Answer every turn of every item in every mode; with `control`, ask what numerics alone would change.

    Later turns follow plain decoding's replies in all modes. What `partial` holds is not run again; what is new is
    added to it. Items that do not fit the model's window are said and left out.
    """
    done = partial.read()
    outcomes: list[Outcome] = []
    warm = False
    for item in items:
        replies: list[str] = []
        for turn in range(1, len(item.turns) + 1):
            outcome = done.get((item.id, turn))
            if outcome is None:
                prompt_ids = chat.prompt_ids(item, replies)
                try:
                    engine.start(prompt_ids, params, drafter=PLAIN)
                except PromptTooLong as error:
                    say(f"{item.id} turn {turn} left out: {error}")
                    break
                if not warm:
                    _warm_up(engine, prompt_ids, modes)
                    warm = True
                outcome = _answer(engine, item, turn, prompt_ids, params, _rotated(modes, len(outcomes)), control)
                partial.add(outcome)
                say(_line(outcome, modes))
            outcomes.append(outcome)
            replies.append(chat.text(outcome.answers[PLAIN].tokens))
    return outcomes


def _answer(
    engine: Engine,
    item: Item,
    turn: int,
    prompt_ids: list[int],
    params: SamplingParams,
    modes: Sequence[str],
    control: bool,
) -> Outcome:
    answers: dict[str, Measured] = {mode: measure(engine, prompt_ids, params, mode) for mode in modes}
    plain = answers[PLAIN].tokens
    left = {mode: first_difference(answer.tokens, plain) for mode, answer in answers.items()}
    flips = control_flips(engine, prompt_ids, plain, params) if control else []
    places = {*(index for index in left.values() if index is not None), *flips}
    margins = plain_margins(engine, prompt_ids, plain, places, params)
    at = {index: Difference(index, len(prompt_ids) + index, margin) for index, margin in margins.items()}
    found = {mode: at[index] for mode, index in left.items() if index is not None}
    controlled = [at[index] for index in flips] if control else None
    return Outcome(item.id, item.benchmark, item.category, turn, len(prompt_ids), answers, found, controlled)


def _warm_up(engine: Engine, prompt_ids: list[int], modes: Sequence[str]) -> None:
    """First passes allocate and compile; nobody's time should hold that."""
    for mode in modes:
        measure(engine, prompt_ids, SamplingParams(max_tokens=WARM_UP_TOKENS, ignore_eos=True), mode)


def _rotated(modes: Sequence[str], by: int) -> list[str]:
    by %= len(modes)
    return [*modes[by:], *modes[:by]]


def _line(outcome: Outcome, modes: Sequence[str]) -> str:
    parts = []
    for mode in modes:
        answer = outcome.answers[mode]
        mat = (len(answer.tokens) - 1) / answer.steps if answer.steps else 1.0
        mark = " differs" if mode in outcome.differences else ""
        parts.append(f"{mode} {answer.decode_s:.1f} s, MAT {mat:.2f}{mark}")
    return f"{outcome.id} turn {outcome.turn}: {'; '.join(parts)}"
