"""Drafters by name. Each sequence gets a fresh one."""

from __future__ import annotations

from collections.abc import Callable

from decoder.drafters.base import Drafter
from decoder.drafters.casd import CasdDrafter
from decoder.drafters.copyspec import CopySpecDrafter
from decoder.drafters.plain import PlainDrafter
from decoder.drafters.pld import PldDrafter
from decoder.errors import UnknownDrafter

DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "off": PlainDrafter,
    "plain": PlainDrafter,
    "pld": PldDrafter,
    "copyspec": CopySpecDrafter,
    "casd": CasdDrafter,
    "auto": CasdDrafter,
}
"""`auto` is the best there is; today that is CASD's copies."""


def make_drafter(name: str) -> Drafter:
    """A fresh drafter. Raises UnknownDrafter with the known names."""
    try:
        return DRAFTERS[name]()
    except KeyError:
        raise UnknownDrafter(name, sorted(DRAFTERS)) from None


__all__ = ["DRAFTERS", "Drafter", "make_drafter"]
