"""Drafter specs, as in benchmarks: `name` or `name:option=value:option=value`, such as `pld:max_ngram=2`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import cast, get_args

from decoder.drafters import DRAFTERS, Drafter
from decoder.errors import UnknownDrafter
from decoder.recording.prompts import BenchError
from decoder.sampling.params import Exact

Option = int | float | bool | str


def parse_spec(spec: str) -> tuple[str, dict[str, Option]]:
    """(name, options) of a drafter spec; values are read as int, float, true/false or text.

    Raises BenchError for an option without a value.
    """
    name, *parts = spec.strip().split(":")
    options: dict[str, Option] = {}
    for part in parts:
        option, equals, value = part.partition("=")
        if not equals or not option or not value:
            raise BenchError(f"{spec!r} has an option without a value; write it as name:option=value")
        options[option] = _value(value)
    return name, options


def make_from_spec(spec: str) -> Drafter:
    """Make a new drafter from its spec.

    Raises:
        UnknownDrafter: there is no drafter of this name.
        BenchError: the drafter has no such option, or rejects the value.
    """
    name, options = parse_spec(spec)
    if name not in DRAFTERS:
        raise UnknownDrafter(name, sorted(DRAFTERS))
    factory = cast("Callable[..., Drafter]", DRAFTERS[name])
    known = [] if not options else list(inspect.signature(factory).parameters)
    for option in options:
        if option not in known:
            raise BenchError(f"drafter {name!r} has no option {option!r}; it has {', '.join(known) or 'none'}")
    try:
        return factory(**options)
    except (TypeError, ValueError) as error:
        raise BenchError(f"drafter {spec!r} cannot be made: {error}") from None


def split_exact(spec: str) -> tuple[str, Exact]:
    """A spec without the option `exact`, and the option's value: it belongs to the request, not to the drafter."""
    parts = spec.split(":")
    values = [part.removeprefix("exact=") for part in parts if part.startswith("exact=")]
    exact = values[-1] if values else "default"
    if exact not in get_args(Exact):
        raise BenchError(f"{spec!r} has exact={exact}; use {' or '.join(get_args(Exact))}")
    return ":".join(part for part in parts if not part.startswith("exact=")), cast("Exact", exact)


def split_specs(text: str) -> list[str]:
    """The specs of a comma-separated list, in order, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _value(text: str) -> Option:
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
