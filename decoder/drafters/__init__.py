"""The drafters by name. Each sequence gets a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from decoder.drafter_names import DrafterName
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.base import Drafter
from decoder.drafters.casd import CasdDrafter
from decoder.drafters.copyspec import CopySpecDrafter
from decoder.drafters.eagle.drafter import EagleDrafter
from decoder.drafters.logitspec import LogitSpecDrafter
from decoder.drafters.plain import PlainDrafter
from decoder.drafters.pld import PldDrafter
from decoder.drafters.pld_plus import PldPlusDrafter
from decoder.drafters.sdsat.drafter import SdsatDrafter, SdsatTwoStepDrafter
from decoder.drafters.small_model import SmallModelDrafter
from decoder.drafters.untrained.lookahead import LookaheadDrafter
from decoder.drafters.untrained.recycling import RecyclingDrafter
from decoder.errors import UnknownDrafter


def copyspec_else_small_model(gamma: int = 3, length: int = 10, drafted: int = 4) -> Drafter:
    """A copy if gamma tokens match, else `drafted` tokens of the draft model. CopySpec, section 3.3."""
    return CopySpecDrafter(gamma, length, fallback=SmallModelDrafter(drafted))


def casd_with_small_model(max_match: int = 10, matches: int = 2, length: int = 10, drafted: int = 4) -> Drafter:
    """Copies and `drafted` tokens of the draft model, in one tree."""
    return CasdDrafter(max_match, matches, length, partner=SmallModelDrafter(drafted))


def copyspec_else_eagle(gamma: int = 3, length: int = 10, top_k: int = 10, depth: int = 6, nodes: int = 60) -> Drafter:
    """A copy if gamma tokens match, else the tree of an EAGLE head."""
    return CopySpecDrafter(gamma, length, fallback=EagleDrafter(top_k, depth, nodes))


def casd_with_eagle(
    max_match: int = 10, matches: int = 2, length: int = 10, top_k: int = 10, depth: int = 6, nodes: int = 60
) -> Drafter:
    """Copies and the tree of an EAGLE head, in one tree, as in CASD, section 3."""
    return CasdDrafter(max_match, matches, length, partner=EagleDrafter(top_k, depth, nodes))


DRAFTERS: dict[DrafterName, Callable[[], Drafter]] = {
    "off": PlainDrafter,
    "plain": PlainDrafter,
    "pld": PldDrafter,
    "copyspec": CopySpecDrafter,
    "casd": CasdDrafter,
    "pld_plus": PldPlusDrafter,
    "logitspec": LogitSpecDrafter,
    "recycling": RecyclingDrafter,
    "lookahead": LookaheadDrafter,
    "small_model": SmallModelDrafter,
    "copyspec+small_model": copyspec_else_small_model,
    "casd+small_model": casd_with_small_model,
    "eagle": EagleDrafter,
    "copyspec+eagle": copyspec_else_eagle,
    "casd+eagle": casd_with_eagle,
    "sdsat": SdsatDrafter,
    "sdsat_two_step": SdsatTwoStepDrafter,
    "auto": AutoDrafter,
}


def make_drafter(name: str) -> Drafter:
    """A new drafter.

    Raises:
        UnknownDrafter: there is no drafter of this name.
    """
    try:
        return DRAFTERS[cast("DrafterName", name)]()
    except KeyError:
        raise UnknownDrafter(name, sorted(DRAFTERS)) from None


__all__ = ["DRAFTERS", "Drafter", "make_drafter"]
