"""The card of a trained head: its model, its data, its training and its scores."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoder.training.eagle.score import Score
    from decoder.training.eagle.trainer import Trainer

_CARD = """# EAGLE head for {model}

A draft head in the layout of EAGLE and EAGLE-2, for speculative decoding of {model}. It proposes tokens that the model
then verifies, so it changes how fast an answer comes and never its text. It has {weights:.1f} million weights, uses
the model's own embeddings and output matrix, and drafts among {vocab} of its tokens (`d2t`).

Data: {data}
{train_set} of the model's own greedy answers to learn from, {held_out} held out (by hash of the prompt).

Command: `{command}`

{steps} steps, {positions} answer positions, {minutes:.0f} minutes on {device}; finished {date}.

On held-out answers ({scored} positions), chains of {depth} tokens: MAT {mat:.2f}. Acceptance by depth:

| depth | {depths} |
|---|{rule}
| accepted | {shares} |

`learning_curve.jsonl` has these figures over the run.
"""


def write_card(
    folder: Path, options: argparse.Namespace, model: str, trainer: Trainer, score: Score, train_set: int, held_out: int
) -> Path:
    """Write README.md into a head's folder."""
    depth = len(score.acceptance)
    text = _CARD.format(
        model=model,
        weights=sum(weight.numel() for weight in trainer.head.parameters()) / 1e6,
        vocab=len(trainer.matrix),
        data=options.about_data or ", ".join(path.name for path in options.data),
        train_set=train_set,
        held_out=held_out,
        command=getattr(options, "line", "rag train eagle"),
        steps=trainer.step,
        positions=trainer.positions,
        minutes=trainer.seconds / 60,
        device=options.device,
        date=datetime.datetime.now(datetime.UTC).date(),
        scored=score.positions,
        depth=depth,
        mat=score.mat,
        depths=" | ".join(str(number) for number in range(1, depth + 1)),
        rule="---|" * depth,
        shares=" | ".join(f"{share:.3f}" for share in score.acceptance),
    )
    path = folder / "README.md"
    path.write_text(text, encoding="utf-8")
    return path
