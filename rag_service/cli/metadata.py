"""Metadata as it is typed: `--meta KEY=VALUE` of an ingest, and `--where` as a filter of the HTTP API.

A value is a number, `true`, `false` or a text as it looks; JSON (`"2020"`, `["a", "b"]`) is taken as such. The key
`date` always has a text, an ISO date where it can be one, because filters compare dates as texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rag_service.cli.console import CliError
from rag_service.stack.exit_status import USAGE
from retriever.dates import iso_date

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="FILTER",
        help="Only documents with this metadata, such as 'year>=2020', team=hr, 'team in hr,it', 'tags contains new' "
        "or a filter in JSON; all of several.",
    ),
]
Meta = Annotated[
    list[str] | None,
    typer.Option(
        "--meta", metavar="KEY=VALUE", help="Metadata of every file, such as team=hr or year=2020; repeatable."
    ),
]
DATE = "date"
EXAMPLES = "'year>=2020', 'team=hr', 'team in hr,it', 'tags contains new', or JSON: '{\"year\": {\"$gte\": 2020}}'"
_COMPARED = {"!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_WORDS = {"in": "$in", "not in": "$nin", "contains": "$contains"}
_SIGN = re.compile(r"\s*([^=!<>]+?)\s*(==|!=|>=|<=|=|>|<)(.*)", re.DOTALL)
_WORD = re.compile(r"\s*([^=!<>\s]+)\s+(not\s+in|in|contains)\s(.*)", re.DOTALL)
_SIGNS = ("=", "!", "<", ">")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_JSON_STARTS = ('"', "[", "{")


def filter_of(conditions: Sequence[str] | None) -> dict[str, Any] | None:
    """The filter that all conditions make; None for none. Raises CliError for one that cannot be read."""
    filters = [_condition(text) for text in conditions or ()]
    if len(filters) > 1:
        return {"$and": filters}
    return filters[0] if filters else None


def metadata_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """The metadata that the pairs make. Raises CliError for one that cannot be read, or a key that is given twice."""
    metadata: dict[str, Any] = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        key = key.strip()
        if not sign or not key:
            raise CliError(f"--meta {pair!r} is not KEY=VALUE; write it as in --meta team=hr.", USAGE)
        if key in metadata:
            raise CliError(f'--meta names {key!r} twice; a list is --meta \'{key}=["one", "two"]\'.', USAGE)
        metadata[key] = _value(key, value, f"--meta {pair!r}")
    return metadata


def _condition(text: str) -> dict[str, Any]:
    option = f"--where {text!r}"
    if text.lstrip().startswith("{"):
        return _object(text, option)
    if match := _WORD.fullmatch(text):
        key, word, operand = match.groups()
        operator = _WORDS[" ".join(word.split())]
        if operator == "$contains":
            return {key: {operator: _value(key, operand, option)}}
        return {key: {operator: _list(key, operand, option)}}
    if match := _SIGN.fullmatch(text):
        key, sign, operand = match.groups()
        if key.startswith("$") or not operand.strip() or operand.lstrip().startswith(_SIGNS):
            raise _unreadable(option)
        value = _value(key, operand, option)
        return {key: value if sign in ("=", "==") else {_COMPARED[sign]: value}}
    raise _unreadable(option)


def _object(text: str, option: str) -> dict[str, Any]:
    value = _json(text, option)
    if not isinstance(value, dict):
        raise _unreadable(option)
    return value


def _list(key: str, text: str, option: str) -> list[Any]:
    if text.lstrip().startswith("["):
        value = _json(text, option)
        return value if isinstance(value, list) else [value]
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise _unreadable(option)
    return [_value(key, part, option) for part in parts]


def _value(key: str, text: str, option: str) -> Any:
    text = text.strip()
    if text.startswith(_JSON_STARTS):
        return _json(text, option)
    if key == DATE:
        return iso_date(text) or text
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return json.loads(text)
    return text


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is too deep or too long"
        raise CliError(f"{option} is not valid JSON: {reason}. Write it as in {EXAMPLES}.", USAGE) from None


def _unreadable(option: str) -> CliError:
    return CliError(
        f"{option} is no condition; write it as in {EXAMPLES}. Quotation marks keep < and > from the shell.",
        USAGE,
    )
