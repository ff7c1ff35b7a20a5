"""Divergence: how often passes over several rows choose another token than plain decoding, and by what margin.

There are two rates. A drafter's answer is compared up to its first difference from plain decoding's, because the tokens
after it have another history. The control measures the effect of numerics alone: it drafts plain decoding's own tokens
and accepts all of them, whatever `select` chooses from the rows of such a pass, so every token of the answer is
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from decoder.bench.decode.outcomes import Outcome
from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.engine import Engine
from decoder.model.kv_cache import KVCache
from decoder.model.pass_parts import TreePass
from decoder.recording.loaded_model import open_model
from decoder.sampling.history import History
from decoder.sampling.near_ties import decide
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import select

CONTROL = "control"
WIDTH = 8
"""Tokens that the control drafts per step."""


def control_flips(
    engine: Engine,
    prompt_ids: list[int],
    plain: list[int],
    params: SamplingParams,
    shared: SharedPrefill | None = None,
) -> list[int]:
    """Indices of the tokens of plain's answer for which a pass over nine rows chooses another token."""
    cache, _ = _prefill(engine, prompt_ids, len(plain) + WIDTH + 1, shared)
    history = History(prompt_ids)
    history.push(plain[0])  # the prefill's choice, which plain decoding shares
    flips = []
    done = 1
    while done < len(plain):
        # As in the engine, a pass yields its drafts and one more token: the last token is never drafted.
        chain = plain[done : min(done + WIDTH, len(plain) - 1)]
        tree = DraftTree.chain(chain, [TokenSource(CONTROL)] * len(chain))
        logits = engine.target.forward_tree([TreePass(cache, plain[done - 1], tree)])[0].logits
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
    """By how much plain decoding preferred these tokens of its answer to the second best, in the scores of `select`.

    Runs plain decoding's passes again, up to the last of the indices: the prefill, then one token each.
    """
    remaining = set(indices)
    margins: dict[int, float] = {}
    if not remaining:
        return margins
    last = max(remaining)
    cache, logits = _prefill(engine, prompt_ids, last + 1, shared)
    history = History(prompt_ids)
    for index in range(last + 1):
        if index in remaining:
            _, margins[index] = decide(logits, params, len(prompt_ids) + index, history)
        if index < last:
            history.push(plain[index])
            logits = engine.target.forward_tree([TreePass(cache, plain[index], DraftTree())])[0].logits[0]
            cache.keep([])
    return margins


def greedy_margins(
    model: str,
    tokens: Iterable[tuple[list[int], list[int], int]],
    *,
    dtype: str,
    device: str,
    models_dir: Path | None = None,
) -> list[float]:
    """By how much plain decoding preferred single tokens of greedy answers to the second best, in logits.

    Loads the model; raises the errors of `open_model`.

    Args:
        tokens: a prompt's ids, the ids of plain decoding's answer to it, and an index into the answer, for each token.
    """
    engine = open_model(model, dtype=dtype, device=device, models_dir=models_dir).engine
    margins = []
    for prompt_ids, plain, index in tokens:
        params = SamplingParams(max_tokens=len(plain) + 1)
        margins.append(plain_margins(engine, prompt_ids, plain, [index], params)[index])
    return margins


def flip_rate(outcomes: Sequence[Outcome], mode: str) -> float:
    """Flips per 1,000 compared tokens."""
    flips, compared = _flips(outcomes, mode)
    return round(1000 * flips / compared, 3) if compared else 0.0


def control_rate(outcomes: Sequence[Outcome], plain: str) -> float | None:
    """Flips of the control per 1,000 tokens of plain's answers; None if the control did not run."""
    flips, tokens = _control_flips(outcomes, plain)
    return round(1000 * len(flips) / tokens, 3) if tokens else None


def divergence(outcomes: Sequence[Outcome], modes: Sequence[str], plain: str) -> list[dict[str, Any]]:
    """An entry per drafter and one for the control: flips, compared tokens, and plain's margins at the flips."""
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
        margins, tokens = _control_flips(outcomes, plain)
        entries.append(
            {
                **{"drafter": CONTROL, "flips": len(margins), "tokens": tokens},
                **{"flips_per_1000": rate, "margins": sorted(margins)},
            }
        )
    return entries


def lines(entries: Iterable[dict[str, Any]]) -> list[str]:
    """The entries as sentences."""
    texts = []
    for entry in entries:
        margins = entry["margins"]
        span = f", plain's margins from {margins[0]:.2g} to {margins[-1]:.2g}" if margins else ""
        ties = entry.get("near_ties")
        strict = f"; {ties} near-ties decided again, {entry['near_ties_changed']} changed" if ties else ""
        texts.append(
            f"{entry['drafter']}: {entry['flips']} flips in {entry['tokens']} tokens, "
            f"{entry['flips_per_1000']:.2f} per 1,000{span}{strict}"
        )
    return texts


def _prefill(
    engine: Engine, prompt_ids: list[int], rows: int, shared: SharedPrefill | None
) -> tuple[KVCache, torch.Tensor]:
    """A cache of the prompt with room for `rows` more, and the logits of its last row."""
    cache = engine.target.new_cache(len(prompt_ids) + rows)
    if shared is not None:
        shared.copy_rows(cache)
    return cache, engine.target.prefill(prompt_ids[cache.length :], cache).logits[0]


def _flips(outcomes: Sequence[Outcome], mode: str) -> tuple[int, int]:
    """(answers that differ from plain's, tokens compared up to the differences)."""
    differences = [outcome.differences.get(mode) for outcome in outcomes]
    compared = sum(
        len(outcome.answers[mode].tokens) if difference is None else difference.index + 1
        for outcome, difference in zip(outcomes, differences, strict=True)
    )
    return sum(difference is not None for difference in differences), compared


def _control_flips(outcomes: Sequence[Outcome], plain: str) -> tuple[list[float], int]:
    """(margins of the control's flips, tokens of the answers that the control ran on)."""
    controlled = [(outcome.answers[plain], outcome.control) for outcome in outcomes if outcome.control is not None]
    return [flip.margin for _, flips in controlled for flip in flips], sum(len(a.tokens) for a, _ in controlled)
