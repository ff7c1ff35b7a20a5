"""Divergence: how often passes over several rows choose another token than plain decoding, and how near a tie it was.

Two rates stand side by side. A drafter's answer counts up to where it first leaves plain's, since what follows has
another history. The control is what numerics alone do: plain's own tokens are drafted and all of them accepted,
whatever `select` says to the rows of such a pass, so every token of the answer is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from decoder.bench.decode.outcomes import Outcome
from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.engine import Engine
from decoder.model.target import TreePass
from decoder.sampling.history import History
from decoder.sampling.near_ties import decide
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import select

CONTROL = "control"
WIDTH = 8
"""Tokens the control drafts a step."""


def control_flips(
    engine: Engine,
    prompt_ids: list[int],
    plain: list[int],
    params: SamplingParams,
    shared: SharedPrefill | None = None,
) -> list[int]:
    """Indices of the tokens of plain's answer that a pass over nine rows would have chosen otherwise."""
    target = engine.target
    cache = target.new_cache(len(prompt_ids) + len(plain) + WIDTH + 1)
    if shared is not None:
        shared.fill(cache)
    target.prefill(prompt_ids[cache.length :], cache)
    history = History(prompt_ids)
    history.push(plain[0])  # the prefill's choice, which plain decoding shares
    flips = []
    done = 1
    while done < len(plain):
        # As the engine has it, a pass yields its drafts and one token more: the last token is never drafted.
        chain = plain[done : min(done + WIDTH, len(plain) - 1)]
        tree = DraftTree.chain(chain, [TokenSource(CONTROL)] * len(chain))
        logits = target.forward_tree([TreePass(cache, plain[done - 1], tree)])[0].logits
        for row, token in enumerate(plain[done : done + len(chain) + 1]):
            if select(logits[row], params, len(prompt_ids) + done + row, history) != token:
                flips.append(done + row)
            history.push(token)
        cache.keep(range(len(chain)))
        done += len(chain) + 1
    return flips


def plain_margins(
    engine: Engine,
    prompt_ids: list[int],
    plain: list[int],
    indices: Iterable[int],
    params: SamplingParams,
    shared: SharedPrefill | None = None,
) -> dict[int, float]:
    """By how much plain decoding preferred these tokens of its answer to the second best, in what `select` compares.

    The passes of plain decoding are run again up to the last of them: prefill, then one token each.
    """
    wanted = set(indices)
    margins: dict[int, float] = {}
    if not wanted:
        return margins
    target = engine.target
    last = max(wanted)
    cache = target.new_cache(len(prompt_ids) + last + 1)
    if shared is not None:
        shared.fill(cache)
    logits = target.prefill(prompt_ids[cache.length :], cache).logits[0]
    history = History(prompt_ids)
    for index in range(last + 1):
        if index in wanted:
            _, margins[index] = decide(logits, params, len(prompt_ids) + index, history)
        if index < last:
            history.push(plain[index])
            logits = target.forward_tree([TreePass(cache, plain[index], DraftTree())])[0].logits[0]
            cache.keep([])
    return margins


def flip_rate(outcomes: Sequence[Outcome], mode: str) -> float:
    """Flips per 1,000 tokens compared."""
    flips, compared = _flips(outcomes, mode)
    return round(1000 * flips / compared, 3) if compared else 0.0


def control_rate(outcomes: Sequence[Outcome], plain: str) -> float | None:
    """Flips of the control per 1,000 tokens of plain's answers; None where it did not run."""
    ran = [outcome for outcome in outcomes if outcome.control is not None]
    tokens = sum(len(outcome.answers[plain].tokens) for outcome in ran)
    return round(1000 * sum(len(outcome.control or ()) for outcome in ran) / tokens, 3) if tokens else None


def divergence(outcomes: Sequence[Outcome], modes: Sequence[str], plain: str) -> list[dict[str, Any]]:
    """One entry a drafter and one for the control, over all outcomes: flips, tokens compared, plain's margins there."""
    entries: list[dict[str, Any]] = []
    for mode in modes:
        flips, compared = _flips(outcomes, mode)
        answers = [outcome.answers[mode] for outcome in outcomes]
        entries.append(
            {
                "drafter": mode,
                "flips": flips,
                "tokens": compared,
                "flips_per_1000": flip_rate(outcomes, mode),
                "margins": sorted(o.differences[mode].margin for o in outcomes if mode in o.differences),
                "steps": sum(answer.steps for answer in answers),
                "near_ties": sum(answer.near_ties for answer in answers),
                "near_ties_changed": sum(answer.near_ties_changed for answer in answers),
            }
        )
    rate = control_rate(outcomes, plain)
    if rate is not None:
        found = [flip for outcome in outcomes for flip in outcome.control or ()]
        tokens = sum(len(o.answers[plain].tokens) for o in outcomes if o.control is not None)
        margins = sorted(flip.margin for flip in found)
        entries.append(
            {"drafter": CONTROL, "flips": len(found), "tokens": tokens, "flips_per_1000": rate, "margins": margins}
        )
    return entries


def lines(entries: Iterable[dict[str, Any]]) -> list[str]:
    """The entries for people, a line each."""
    said = []
    for entry in entries:
        margins = entry["margins"]
        where = f", where plain's margin was {margins[0]:.2g} to {margins[-1]:.2g}" if margins else ""
        ties = entry.get("near_ties")
        strict = f"; {ties} near-ties decided again, {entry['near_ties_changed']} otherwise" if ties else ""
        said.append(
            f"{entry['drafter']}: {entry['flips']} flips in {entry['tokens']} tokens, "
            f"{entry['flips_per_1000']:.2f} per 1,000{where}{strict}"
        )
    return said


def _flips(outcomes: Sequence[Outcome], mode: str) -> tuple[int, int]:
    """(answers that left plain's, tokens compared up to there)."""
    found = [outcome.differences.get(mode) for outcome in outcomes]
    compared = sum(
        len(outcome.answers[mode].tokens) if difference is None else difference.index + 1
        for outcome, difference in zip(outcomes, found, strict=True)
    )
    return sum(difference is not None for difference in found), compared
