"""`bench promise`: checks that `auto` is not slower than plain decoding, nor than the best single drafter.

The check is made per benchmark, category and turn. Ratios are paired: the other mode's decode time per token over
auto's on the same prompt, so above 1 auto is faster. Their geometric mean gets a bootstrap interval. The check fails if
the whole interval lies below `BAR`, and passes if the whole interval lies above it. The best single drafter is chosen
on one half of the prompts and compared on the other half, both ways round, so that luck in choosing does not count.
Peers are compared in the same way, without a bar.

Pure arithmetic on outcomes, and its report as JSON and Markdown; knows no model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from decoder.bench.decode.outcomes import Category, Outcome, by_category, prompts_path, read_outcomes
from decoder.bench.decode.peers import is_peer
from decoder.bench.decode.rows import PLAIN, decode_ratio, overhead
from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError, first_repeated
from decoder.recording.specs import parse_spec, split_exact

AUTO = "auto"
BAR = 0.98
BEST = "best single drafter"
OVERHEAD = 0.02
"""Largest share of decode time that auto's own work may take."""
SAMPLES = 10_000
SAME = ("model", "dtype", "device", "max_tokens", "temperature", "threads")
"""Settings that runs must share to be checked together."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Auto against one other mode on one category and turn. The fields are those of the JSON result.

    Attributes:
        against: "plain", BEST, or a peer's spec.
        chosen: the drafters that were best on either half, if `against` is BEST.
        pairs: prompts compared.
        ratio: geometric mean of the other mode's time over auto's time.
        low, high: its 95 % interval.
        promised: whether the bar applies.
        verdict: "kept" for an interval above the bar, "open" for one around it, "broken" for one below.
    """

    benchmark: str
    category: str
    turn: int
    against: str
    chosen: list[str]
    pairs: int
    ratio: float
    low: float
    high: float
    promised: bool
    verdict: str


def compare_speeds(outcomes: Iterable[Outcome], modes: Sequence[str], auto: str = AUTO) -> list[dict[str, Any]]:
    """Every comparison of every category, as JSON objects. Comparisons without a timed pair are left out."""
    singles = [mode for mode in modes if is_single(mode, auto)]
    comparisons: list[Comparison | None] = []
    for category, group in by_category(outcomes).items():
        comparisons.append(_comparison(category, PLAIN, ratios(group, PLAIN, auto)))
        comparisons.append(_against_best(category, group, singles, auto))
        for mode in filter(is_peer, modes):
            comparisons.append(_comparison(category, mode, ratios(group, mode, auto), promised=False))
    return [asdict(comparison) for comparison in comparisons if comparison is not None]


def overheads(outcomes: Sequence[Outcome], modes: Sequence[str]) -> dict[str, float]:
    """Share of each drafter's decode time for drafting and bookkeeping, a neural drafter's passes included."""
    shares = {mode: overhead([outcome.answers[mode] for outcome in outcomes]) for mode in modes if not is_peer(mode)}
    return {mode: share for mode, share in shares.items() if share is not None}


def is_single(mode: str, auto: str) -> bool:
    """Whether a mode is a single drafter: not plain, a peer, auto or a strict answer."""
    if is_peer(mode) or split_exact(mode)[1] == "strict":
        return False
    return parse_spec(split_exact(mode)[0])[0] not in {PLAIN, "off", AUTO, parse_spec(auto)[0]}


def ratios(outcomes: Iterable[Outcome], slow: str, fast: str) -> list[float]:
    """Time of `slow` over time of `fast`, per prompt on which both have a second token."""
    pairs = [decode_ratio(outcome.answers[slow], outcome.answers[fast]) for outcome in outcomes]
    return [ratio for ratio in pairs if ratio is not None]


def interval(values: Sequence[float], samples: int = SAMPLES, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval (percentiles) of the geometric mean; the same values give the same interval."""
    logs = np.log(values)
    drawn = np.random.default_rng(seed).integers(0, len(logs), (samples, len(logs)))
    low, high = np.exp(np.percentile(logs[drawn].mean(1), [2.5, 97.5]))
    return float(low), float(high)


def _against_best(category: Category, group: Sequence[Outcome], singles: Sequence[str], auto: str) -> Comparison | None:
    """None unless there is a prompt to choose the drafter on and another to compare it on."""
    pooled: list[float] = []
    chosen: list[str] = []
    for choosing, comparing in ((group[::2], group[1::2]), (group[1::2], group[::2])):
        timed = [mode for mode in singles if ratios(choosing, PLAIN, mode)]
        if timed and comparing:
            best = max(timed, key=lambda mode: geometric_mean(ratios(choosing, PLAIN, mode)))
            chosen.append(best)
            pooled += ratios(comparing, best, auto)
    return _comparison(category, BEST, pooled, list(dict.fromkeys(chosen)))


def _comparison(
    category: Category, against: str, values: Sequence[float], chosen: Sequence[str] = (), promised: bool = True
) -> Comparison | None:
    if not values:
        return None
    low, high = interval(values)
    verdict = "kept" if low >= BAR else "broken" if high < BAR else "open"
    ratio, low, high = (round(value, 4) for value in (geometric_mean(values), low, high))
    return Comparison(*category, against, list(chosen), len(values), ratio, low, high, promised, verdict)


def run_check(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """`bench promise` from its parsed arguments; 1 if a comparison lies below the bar, else 0."""
    settings, modes, outcomes = load(options.results)
    if options.auto not in modes:
        raise BenchError(f"no mode is called {options.auto!r}; there are {', '.join(modes)}; name one with --auto")
    comparisons = compare_speeds(outcomes, modes, options.auto)
    shares = overheads(outcomes, modes)
    shared = {name: settings.get(name) for name in SAME}
    facts = environment(options.line, **shared, reads=[path.name for path in options.results])
    text = "\n".join(["# The promise", "", *report_lines(comparisons, shares), "", *environment_lines(facts)])
    if options.json:
        write_json(options.json, {"environment": facts, "promise": comparisons, "overhead": shares})
    write_markdown(options.markdown, text)
    if not options.json and not options.markdown:
        say(text)
    broken = [entry for entry in comparisons if entry["promised"] and entry["verdict"] == "broken"]
    for entry in broken:
        say(
            f"broken: {entry['benchmark']}/{entry['category']} turn {entry['turn']}: {entry['ratio']:.3f} against "
            f"{_against(entry)} (95 %: {entry['low']:.3f} to {entry['high']:.3f})"
        )
    return int(bool(broken))


def load(paths: Sequence[Path]) -> tuple[dict[str, Any], list[str], list[Outcome]]:
    """(settings, modes that all runs have, outcomes) of results or of their .prompts.jsonl files.

    Raises BenchError if a file is missing, runs had other settings, or a prompt was answered twice.
    """
    settings: dict[str, Any] = {}
    modes: list[str] = []
    outcomes: list[Outcome] = []
    for path in paths:
        own, of_run = read_outcomes(path if path.suffix == ".jsonl" else prompts_path(path))
        if not settings:
            settings, modes = own, list(own["modes"])
        differing = [name for name in SAME if own.get(name) != settings.get(name)]
        if differing:
            raise BenchError(f"{path} was run with another {', '.join(differing)} than {paths[0]}; report it by itself")
        modes = [mode for mode in modes if mode in own["modes"]]
        outcomes += of_run
    if repeated := first_repeated((outcome.id, outcome.turn) for outcome in outcomes):
        raise BenchError(f"{repeated[0]} was answered in two of these runs; give each prompt once")
    return settings, modes, outcomes


def report_lines(comparisons: Sequence[Mapping[str, Any]], shares: Mapping[str, float]) -> list[str]:
    """The report as Markdown."""
    verdicts = [entry["verdict"] for entry in comparisons if entry["promised"]]
    lines = [
        f"Of {len(verdicts)} comparisons with plain decoding and the best single drafter, {verdicts.count('kept')} lie "
        f"above {BAR} with their whole 95 % interval, {verdicts.count('open')} around it, {verdicts.count('broken')} "
        "below it.",
        "",
        "Ratios are the other's decode time per token over auto's on the same prompt: geometric mean, then its "
        "bootstrap interval. The best single drafter is chosen on one half of the prompts and compared on the other.",
        "",
    ]
    body = [
        [
            *(entry["benchmark"], entry["category"], str(entry["turn"]), _against(entry), str(entry["pairs"])),
            *(f"{entry[name]:.3f}" for name in ("ratio", "low", "high")),
            entry["verdict"] if entry["promised"] else "–",
        ]
        for entry in comparisons
    ]
    head = ["benchmark", "category", "turn", "against", "pairs", "ratio", "from", "to", "promise"]
    lines += table(head, body, left=4)
    if shares:
        body = [[mode, f"{100 * share:.2f} %"] for mode, share in shares.items()]
        lines += ["", "Drafting and bookkeeping, of all decode time (a neural drafter's passes count as drafting; the"]
        lines += [f"bar for auto's own is {100 * OVERHEAD:.0f} %):", "", *table(["drafter", "share"], body, left=1)]
    return lines


def _against(entry: Mapping[str, Any]) -> str:
    chosen = ", ".join(entry["chosen"])
    return f"{entry['against']} ({chosen})" if chosen else str(entry["against"])
