"""Weights that come with the package for particular target models: a folder per model, with a config.json.

The config's `target` names the model that the weights were trained for, its sizes and a fingerprint of its weights.
Equal sizes are required. Then a model of equal weights matches, whatever its name, and so does a model of that name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from decoder.model.fingerprint import NONE, describe
from decoder.model.target import TargetModel

_SIZES = ("hidden_size", "vocab_size", "layers")


def shipped_names(package: Path) -> list[str]:
    """Names of a package's folders."""
    return sorted(path.parent.name for path in package.glob("*/config.json"))


def find_shipped(package: Path, target: TargetModel, model: str) -> Path | None:
    """The package's folder for a target called `model`; None if there is none."""
    facts = describe(target, model)
    for name in shipped_names(package):
        config = json.loads((package / name / "config.json").read_text(encoding="utf-8"))
        if mismatch(config.get("target", {}), facts) is None:
            return package / name
    return None


def choose_folder(
    wanted: str | Path | None,
    package: Path,
    target: TargetModel,
    model: str,
    missing: Callable[[str], Exception],
) -> Path | None:
    """The folder to load for a target.

    Args:
        wanted: a folder, the name of a package's folder, "off" for none, or None for the package's folder for this
            model, if there is one.
        package: folder of the shipped folders.
        model: the target's name.
        missing: makes the error for a folder that does not exist, from the names to choose from: "" or ", or one of …".
    """
    if wanted == NONE:
        return None
    if wanted is None:
        return find_shipped(package, target, model)
    if (folder := Path(wanted).expanduser()).is_dir():
        return folder
    names = shipped_names(package)
    if str(wanted) not in names:
        raise missing(f", or one of {', '.join(names)}" if names else "")
    return package / str(wanted)


def mismatch(trained_for: Mapping[str, Any], facts: Mapping[str, Any]) -> str | None:
    """Why weights with this `target` entry do not fit a model with these facts (`describe`); None if they fit."""
    for size in _SIZES:
        if trained_for.get(size) != facts[size]:
            return (
                f"trained for {trained_for.get('model')!r} with {size} {trained_for.get(size)}, {facts['model']!r} has "
                f"{facts[size]}"
            )
    if trained_for.get("fingerprint") != facts["fingerprint"] and trained_for.get("model") != facts["model"]:
        return f"trained for {trained_for.get('model')!r}, whose weights are not those of {facts['model']!r}"
    return None
