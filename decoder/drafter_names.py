"""The drafters' names, for whoever checks a request without loading torch; `decoder.drafters` makes them."""

from __future__ import annotations

from typing import Literal, get_args

DrafterName = Literal[
    "off",
    "auto",
    "plain",
    "pld",
    "copyspec",
    "casd",
    "pld_plus",
    "logitspec",
    "recycling",
    "lookahead",
    "small_model",
    "copyspec+small_model",
    "casd+small_model",
    "eagle",
    "copyspec+eagle",
    "casd+eagle",
    "sdsat",
    "sdsat_two_step",
]
DRAFTER_NAMES: tuple[DrafterName, ...] = get_args(DrafterName)
