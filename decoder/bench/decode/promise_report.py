"""`bench promise`: the promise report from answers on disk, as JSON and as Markdown tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from decoder.bench.decode.outcomes import Outcome, prompts_path, read_outcomes
from decoder.bench.decode.promise import BAR, OVERHEAD, overheads, promise
from decoder.bench.simulated.report import environment_lines, table, write_json
from decoder.recording.environment import environment
from decoder.recording.prompts import BenchError

SAME = ("model", "dtype", "device", "max_tokens", "temperature", "threads")
"""Settings that runs must share to be put together."""


def run_promise(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """`bench promise` from its parsed arguments; 1 where a promise is broken, else 0."""
    settings, modes, outcomes = load(options.results)
    if options.auto not in modes:
        raise BenchError(f"no mode is called {options.auto!r}; there are {', '.join(modes)}; name one with --auto")
    entries = promise(outcomes, modes, options.auto)
    shares = overheads(outcomes, modes)
    facts = environment(options.line, **{name: settings.get(name) for name in SAME}, reads=_names(options.results))
    text = "\n".join(["# The promise", "", *promise_lines(entries, shares), "", *environment_lines(facts)])
    if options.json:
        write_json(options.json, {"environment": facts, "promise": entries, "overhead": shares})
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text, encoding="utf-8")
    if not options.json and not options.markdown:
        say(text)
    lost = broken(entries)
    for line in lost:
        say(line)
    return int(bool(lost))


def load(paths: Sequence[Path]) -> tuple[dict[str, Any], list[str], list[Outcome]]:
    """(settings, modes that all runs have, outcomes) of results or of the answers beside them.

    Raises BenchError where a file is missing, runs had other settings, or a prompt was answered twice.
    """
    settings: dict[str, Any] = {}
    modes: list[str] = []
    outcomes: list[Outcome] = []
    for path in paths:
        own, found = read_outcomes(path if path.suffix == ".jsonl" else prompts_path(path))
        if not settings:
            settings, modes = own, list(own["modes"])
        differs = [name for name in SAME if own.get(name) != settings.get(name)]
        if differs:
            raise BenchError(f"{path} was run with another {', '.join(differs)} than {paths[0]}; report it by itself")
        modes = [mode for mode in modes if mode in own["modes"]]
        outcomes += found
    places = [(outcome.id, outcome.turn) for outcome in outcomes]
    twice = sorted({id for id, turn in places if places.count((id, turn)) > 1})
    if twice:
        raise BenchError(f"{twice[0]} was answered in two of these runs; give each prompt once")
    return settings, modes, outcomes


def promise_lines(entries: Sequence[Mapping[str, Any]], shares: Mapping[str, float]) -> list[str]:
    """The report as Markdown."""
    promised = [entry for entry in entries if entry["promised"]]
    counts = {verdict: sum(e["verdict"] == verdict for e in promised) for verdict in ("kept", "open", "broken")}
    lines = [
        f"Of {len(promised)} comparisons with plain decoding and the best single drafter, {counts['kept']} lie above "
        f"{BAR} with their whole 95 % interval, {counts['open']} around it, {counts['broken']} below it.",
        "",
        "Ratios are the other's decode time a token over auto's on the same prompt: geometric mean, then its bootstrap "
        "interval. The best single drafter is chosen on one half of the prompts and compared on the other.",
        "",
    ]
    body = [
        [
            *(entry["benchmark"], entry["category"], str(entry["turn"]), _against(entry), str(entry["pairs"])),
            *(f"{entry[name]:.3f}" for name in ("ratio", "low", "high")),
            entry["verdict"] if entry["promised"] else "–",
        ]
        for entry in entries
    ]
    head = ["benchmark", "category", "turn", "against", "pairs", "ratio", "from", "to", "promise"]
    lines += table(head, body, left=4)
    if shares:
        body = [[mode, f"{100 * share:.2f} %"] for mode, share in shares.items()]
        lines += ["", "Drafting and bookkeeping, of all decode time (a neural drafter's passes count as drafting; the"]
        lines += [f"bar for auto's own is {100 * OVERHEAD:.0f} %):", "", *table(["drafter", "share"], body, left=1)]
    return lines


def broken(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was promised and is not so, a line each."""
    return [
        f"broken: {entry['benchmark']}/{entry['category']} turn {entry['turn']}: {entry['ratio']:.3f} against "
        f"{_against(entry)} (95 %: {entry['low']:.3f} to {entry['high']:.3f})"
        for entry in entries
        if entry["promised"] and entry["verdict"] == "broken"
    ]


def _against(entry: Mapping[str, Any]) -> str:
    chosen = ", ".join(entry["chosen"])
    return f"{entry['against']} ({chosen})" if chosen else str(entry["against"])


def _names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]
