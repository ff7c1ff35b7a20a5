"""Chooses the EAGLE head of a target. Heads that come with the package are in `heads/<model>/`."""

from __future__ import annotations

from pathlib import Path

from decoder.errors import EagleHeadError
from decoder.heads.checkpoint import load
from decoder.heads.head import FittedHead
from decoder.model.shipped import choose_folder
from decoder.model.target import TargetModel

FOLDER = Path(__file__).parent


def fit_head(
    wanted: str | Path | None, target: TargetModel, model: str, *, allow_pickle: bool = False
) -> FittedHead | None:
    """The head for a target.

    Args:
        wanted: a folder, the name of a shipped head, "off" for none, or None for this model's shipped head, if there
            is one.
        model: the target's name.
        allow_pickle: as for `load`.

    Raises:
        EagleHeadError: the head does not exist or does not fit.
    """

    def missing(names: str) -> EagleHeadError:
        return EagleHeadError(
            f"there is no EAGLE head {str(wanted)!r}; give a folder with config.json and the head's weights{names}"
        )

    folder = choose_folder(wanted, FOLDER, target, model, missing)
    return None if folder is None else FittedHead(load(folder, allow_pickle=allow_pickle), target)
