"""EAGLE heads that come with the package, in `heads/<model>/`, and which of them belongs to a target.

A head's config.json says under `target` what it was trained for: the model's name, its sizes, and a fingerprint of its
weights. Equal weights take the head whatever their folder is called; a model of that name takes it if its sizes agree.
"""

from __future__ import annotations

import json
from pathlib import Path

from decoder.errors import EagleHeadError
from decoder.heads.checkpoint import load
from decoder.heads.head import FittedHead
from decoder.model.fingerprint import NONE, describe
from decoder.model.target import TargetModel

FOLDER = Path(__file__).parent


def fit_head(
    wanted: str | Path | None, target: TargetModel, model: str, *, allow_pickle: bool = False
) -> FittedHead | None:
    """The head for a target.

    Args:
        wanted: a folder, the name of a shipped head, "off" for none, or None for the shipped one of this model,
            if there is one.
        model: the target's name.

    Raises:
        EagleHeadError: what was asked for is not there or does not fit.
    """
    if wanted == NONE:
        return None
    if wanted is None:
        folder = find(target, model)
        return None if folder is None else FittedHead(load(folder), target)
    folder = Path(wanted).expanduser()
    if not folder.is_dir():
        if str(wanted) not in names():
            raise EagleHeadError(
                f"there is no EAGLE head {str(wanted)!r}; give a folder with config.json and the head's weights"
                + (f", or one of {', '.join(names())}" if names() else "")
            )
        folder = FOLDER / str(wanted)
    return FittedHead(load(folder, allow_pickle=allow_pickle), target)


def names() -> list[str]:
    """Of the heads in the package."""
    return sorted(path.parent.name for path in FOLDER.glob("*/config.json"))


def find(target: TargetModel, model: str) -> Path | None:
    """The shipped head of a target, None where there is none."""
    facts = describe(target, model)
    for name in names():
        made_for = json.loads((FOLDER / name / "config.json").read_text(encoding="utf-8")).get("target", {})
        if any(made_for.get(size) != facts[size] for size in ("hidden_size", "vocab_size", "layers")):
            continue
        if made_for.get("fingerprint") == facts["fingerprint"] or model in {name, made_for.get("model")}:
            return FOLDER / name
    return None
