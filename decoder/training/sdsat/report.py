"""The report on trained SDSAT adapters: the paper's plot of accept rates by k, and the card in their folder."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CARD, PLOT = "README.md", "accept_rate.svg"
_LINES = 6
"""Most evaluations in the plot."""


def draw(curve: Sequence[Mapping[str, Any]], path: Path) -> Path | None:
    """Draw the accept rate by k (figures 3 and 4 of the paper, left) for some evaluations of a learning curve, as SVG.

    Returns None if matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None or not curve:
        return None
    from matplotlib.figure import Figure

    stride = max(1, -(-(len(curve) - 1) // (_LINES - 1)))
    chosen = [*curve[:-1:stride], curve[-1]]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, line in enumerate(chosen):
        rates = line["accept_rate"]
        shade = 0.15 + 0.85 * number / max(len(chosen) - 1, 1)
        label = f"{line['mask_positions']:,} mask positions"
        axes.plot(range(1, len(rates) + 1), rates, marker="o", color="C0", alpha=shade, label=label)
    axes.set_xticks(range(1, len(chosen[-1]["accept_rate"]) + 1))
    axes.set_xlabel("k, adaptive tokens")
    axes.set_ylabel("accept rate: accepted tokens / k")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    figure.savefig(path)
    return path


def card(config: Mapping[str, Any], line: Mapping[str, Any], command: str, about_data: str) -> str:
    """README.md of an adapters' folder.

    Args:
        config: its config.json.
        line: the last line of the learning curve.
        about_data: source and licences of the data.
    """
    target = config["target"]
    shares = " | ".join(f"{share:.3f}" for share in line["accepted"])
    rates = " | ".join(f"{share:.3f}" for share in line["accept_rate"])
    top1 = " | ".join(f"{share:.3f}" for share in line["top1"])
    heads = " | ".join(str(k + 1) for k in range(len(line["accepted"])))
    rule = "---|" * (len(line["accepted"]) + 1)
    later = "" if config["steps"] == line["step"] else f" The weights are those after {config['steps']:,} steps."
    alone = config.get("start", 0)
    before = f" Before that the conditioner learned alone, from {alone:,} points." if alone else ""
    drafted = "all of its tokens" if config["tokens"] is None else f"its {config['tokens']:,} most used tokens"
    return f"""# SDSAT adapters for {target["model"]}

{config["masks"]} masks, low-rank adapters of rank {config["rank"]} on {", ".join(config["linears"])}, a conditioner of
{config["coupler"]} hidden units: {config["parameters"]:,} parameters. They act at the rows of masks alone; the model
and its answers stay as they are. They can draft {drafted}.

Made for `{target["model"]}` ({target["layers"]} layers, width {target["hidden_size"]}, vocabulary
{target["vocab_size"]:,}, fingerprint `{target["fingerprint"]}`); use them with
`load_engine(..., sdsat_adapters="FOLDER", drafter="sdsat")` or `RAG_SDSAT_ADAPTERS=FOLDER`.

## Figures

{line["points"]:,} accept points of held-out prompts, greedy chains, after {line["step"]:,} steps
({line["mask_positions"]:,} mask positions, {line["seconds"] / 60:.0f} minutes).{later}{before}

| mask | {heads} |
|{rule}
| right, given the tokens before it | {top1} |
| accepted | {shares} |
| accept rate (accepted / k) | {rates} |

Tokens a target pass, chains alone: {line["mat"]["one_pass"]:.2f} in one pass, {line["mat"]["two_step"]:.2f} in the
paper's two steps. Trees accept more. `learning_curve.jsonl` has every evaluation, `accept_rate.svg` shows the last.

## Training

    {command}

Data: {about_data or "not stated"}
"""
